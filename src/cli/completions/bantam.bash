# Completion of bantam's command line for bash.

_bantam() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} options=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W 'run tokenize logits perplexity compress inspect bench formats cpuinfo --help --version' -- "$current")
    return
  fi
  case $previous in
    --kv) options='f32 f16 q8 q4' ;;
    --gptq-zero) options='automatic wrapped legacy' ;;
    --method) options='rtn gptq awq awq+gptq hqq' ;;
    --to) options='native safetensors gguf gptq gptq_v2 awq bnb' ;;
    --format) options=$(bantam compress --format help 2>/dev/null | tr -d ,) ;;
    --isa) options=$(bantam cpuinfo 2>/dev/null | sed -n 's/^isas: *//; s/ (best first)//p' | tr -d ,) ;;
  esac
  if [[ -n $options ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  if [[ $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  case $verb in
    run)
      options='--help --prompt --file --max-tokens --temperature --top-k --top-p --min-p --typical --repeat-penalty
        --frequency-penalty --presence-penalty --repeat-last-n --seed --stop --logit-bias --lookup --draft --ignore-eos
        --context --kv --parse-special --chat --no-history --system --save-session --load-session --quiet --mmap
        --no-mmap --direct --verify --gptq-zero --threads --isa --json' ;;
    tokenize)
      options='--help --file --decode --lines --no-special --parse-special --threads --isa --json' ;;
    logits)
      options='--help --prompt --file --ids --top --all-positions --parse-special --kv --mmap --no-mmap --direct --verify --gptq-zero --threads
        --isa --json' ;;
    perplexity)
      options='--help --context --limit --against --kv --mmap --no-mmap --direct --verify --gptq-zero --threads --isa --json' ;;
    compress)
      options='--help --output --method --format --group --keep --to --calibration --samples --tokens --desc-act --no-true-sequential
        --rotate --seed --smooth --clip --prune --prune-to --no-compensation --fit --candidates --dry-run --evaluate --limit --report --resume
        --gptq-zero --threads
        --isa --json' ;;
    inspect)
      options='--help --verify --gptq-zero --threads --isa --json' ;;
    bench)
      options='--help --prompt-tokens --gen-tokens --repetitions --depth --batch --kv --mmap --no-mmap --direct --verify --gptq-zero --threads
        --isa --json' ;;
    formats)
      options='--help --threads --isa --json' ;;
    cpuinfo)
      options='--help --threads --isa --json' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
}

complete -F _bantam bantam
