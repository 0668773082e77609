# Completion of gpupool for bash. Commands, options and choices are asked of the tool itself.

_gpupool()
{
  local tool=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= program= help choices i
  COMPREPLY=()

  # "--sort=pe" comes as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "$("$tool" --help 2>/dev/null | sed -n 's/^  \([a-z]\+\) .*/\1/p') --help --version" \
      -- "$current"))
    return
  fi
  command=${COMP_WORDS[1]}
  if [[ $command == help ]]; then
    COMPREPLY=($(compgen -W "$("$tool" --help 2>/dev/null | sed -n 's/^  \([a-z]\+\) .*/\1/p')" -- "$current"))
    return
  fi
  help=$("$tool" help "$command" 2>/dev/null) || return

  # The words of the program that is run are its own.
  if [[ $command == run || $command == doctor ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      [[ ${COMP_WORDS[i]} == -- ]] && program=$((i + 1))
    done
    if [[ $program ]]; then
      if ((COMP_CWORD == program)); then
        COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current"))
      elif declare -F _command_offset >/dev/null; then
        _command_offset "$program"
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi
      return
    fi
  fi

  choices=$(sed -n "s/^  ${previous} \([a-z|,.]*|[a-z|,.]*\).*/\1/p" <<<"$help")
  if [[ $previous == --* && $choices ]]; then
    COMPREPLY=($(compgen -W "${choices//[|,.]/ }" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(grep -oE '^  (-[a-z], )?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+') --help" -- "$current"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}

complete -F _gpupool gpupool
