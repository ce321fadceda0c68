# Completion of bantam's command line for fish: the program says what may come next, and where it says nothing, files may.

function __bantam_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l offers ($words[1] __complete $words[2..] "$current" 2>/dev/null)
  if set -q offers[1]
    printf '%s\n' $offers
  else
    __fish_complete_path "$current"
  end
end

complete -c bantam -f -a '(__bantam_complete)'
