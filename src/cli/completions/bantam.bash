# Completion of bantam's command line for bash: the program says what may come next, and where it says nothing, files may.

_bantam() {
  mapfile -t COMPREPLY < <("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
}

complete -o default -F _bantam bantam
