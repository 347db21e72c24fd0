# shellcheck shell=bash
#
# trap.sh adds to the traps of a bash script where `trap` replaces them:
#
#   trap_add 'rm -rf "$dir"' EXIT
#   trap_add 'leasectl release --handle "$handle"' EXIT TERM
#   trap_del 'rm -rf "$dir"' EXIT
#
# An existing trap stays and runs first, however it was set. Commands run in the
# order in which they were added. Each sees in $? the status that the shell had
# when the trap ran, and the shell exits with that status. A command that fails
# does not stop the next, even under errexit. A subshell starts without traps,
# as always, and what it adds is its own.
#
# Otherwise this is bash's own trap. A signal does not end the script by itself:
# a script that must end at TERM has `exit 143` as its last command for TERM. A
# command added to both TERM and EXIT then runs for both. `trap - EXIT` removes
# all. If a part of a command fails without ending its list, the rest of the
# list runs, since errexit has no effect inside. An error that ends bash itself,
# such as an unset variable under nounset or ${x:?}, ends the commands for EXIT,
# too.
#
# `exit` in a command for EXIT ends the shell with that status, after the
# remaining commands. `exit` in a command for a signal skips the remaining
# commands for this signal, and the commands for EXIT run.
#
# ERR, DEBUG and RETURN are refused: a function does not see these traps of its
# caller.

case ${BASH_VERSION-} in
'' | [0-3].* | 4.[01].*)
  echo 'leasectl: trap.sh needs bash 4.2 or newer: run the script with that, not with this shell' >&2
  # shellcheck disable=SC2317 # reached if the file is run, not sourced
  return 1 2>/dev/null || exit 1
  ;;
esac

# trap_add COMMAND SIGNAL... adds a command to the trap of each signal. A SIGNAL
# is EXIT or 0, or a signal's name, with or without SIG, or its number. Returns
# 1, and changes nothing, if one of them cannot be trapped.
trap_add() {
  trap__edit trap_add "$@"
}

# trap_del COMMAND SIGNAL... removes a command, the last one added if there are
# several. Returns 1 if a signal has no such command; it is removed from the
# other signals all the same.
trap_del() {
  trap__edit trap_del "$@"
}

# The commands are kept where bash keeps them, in the text of the trap, so that
# nothing goes stale when a script uses `trap` directly. For a signal the text
# is, with every command quoted into one line,
#
#   trap__status_15=$?
#   { trap__status "$trap__status_15"; eval COMMAND
#   } || :
#
# and so on. No function is between a command and its trap, so break, return and
# $1 have their usual meaning in a trap. For EXIT, where break and return mean
# nothing, the text is a function call, in which exit can be caught:
#
#   trap__on_exit "$?" "$#" "$@" COMMAND...

# trap__frame sets the text around the commands of a trap.
trap__frame() {
  if ((trap__number == 0)); then
    # shellcheck disable=SC2016
    trap__head='trap__on_exit "$?" "$#" "$@"' trap__before=' ' trap__after=''
  else
    trap__head="trap__status_$trap__number=\$?"
    trap__before=$'\n'"{ trap__status \"\$trap__status_$trap__number\"; eval "
    trap__after=$'\n} || :'
  fi
}

# trap__parse TRAP sets trap__chain to the commands of a trap, as `trap -p`
# prints it. A trap that is not a chain is one command.
trap__parse() {
  eval "set -- $1" # trap -- TEXT SIGNAL
  trap__chain=()
  # Without a trap, trap -p prints nothing, or in POSIX mode the default, -.
  if (($# == 0)) || [[ $3 == - ]]; then
    return
  fi
  if [[ $3 != "$trap__head$trap__before"* ]]; then
    trap__chain=("$3")
    return
  fi
  local trap__rest=${3#"$trap__head"}
  trap__rest=${trap__rest//"$trap__before"/ }
  trap__rest=${trap__rest//"$trap__after"/ }
  eval "trap__chain=($trap__rest)"
}

# trap__remove takes trap__command out of trap__chain, the last of several.
trap__remove() {
  local trap__i
  for ((trap__i = ${#trap__chain[@]} - 1; trap__i >= 0; trap__i--)); do
    # Not [[ ]], for which x and X are equal under nocasematch.
    if [ "${trap__chain[trap__i]}" = "$trap__command" ]; then
      unset "trap__chain[trap__i]"
      return 0
    fi
  done
  return 1
}

# trap__set SIGNAL sets the trap to trap__chain. Without commands the trap is
# the signal's default. With only the empty command it ignores the signal, as
# with `trap`.
trap__set() {
  if ((${#trap__chain[@]} == 0)); then
    trap - "$1"
    return
  fi
  local trap__text trap__quoted trap__one
  printf -v trap__text %s "${trap__chain[@]}"
  if [[ -z $trap__text ]]; then
    trap '' "$1"
    return
  fi
  trap__text=$trap__head
  for trap__one in "${trap__chain[@]}"; do
    printf -v trap__quoted %q "$trap__one"
    trap__text+=$trap__before$trap__quoted$trap__after
  done
  trap -- "$trap__text" "$1"
}

# trap__edit VERB COMMAND SIGNAL...
trap__edit() {
  local trap__verb=$1
  if (($# < 3)); then
    printf '%s: want a command and at least one signal, such as: %s "rm -f file" EXIT TERM\n' "$trap__verb" "$trap__verb" >&2
    return 1
  fi
  local trap__command=$2 trap__signal trap__number trap__old
  local trap__head trap__before trap__after trap__failed=0
  local -a trap__chain
  shift 2

  # A subshell shows the traps of its parent, for saved=$(trap), until it first
  # sets one. This command sets none, but counts as one that does.
  # shellcheck disable=SC2173
  trap - KILL

  for trap__signal; do
    trap__find "$trap__signal" || return 1
  done
  for trap__signal; do
    trap__find "$trap__signal"
    if [[ $trap__verb == trap_add && $trap__number == 0 && ${trap__exit_shell-} == "$BASHPID" ]]; then
      trap__exit_chain+=("$trap__command") # the trap runs already: bash does not read its text again
      continue
    fi
    trap__frame
    trap__parse "$trap__old"
    if [[ $trap__verb == trap_add ]]; then
      trap__chain+=("$trap__command")
    elif ! trap__remove; then
      printf '%s: %s: no such command: %s\n' "$trap__verb" "$trap__signal" "$trap__command" >&2
      trap__failed=1
      continue
    fi
    trap__set "$trap__signal"
  done
  return "$trap__failed"
}

# trap__find SIGNAL sets trap__number to the signal's number and trap__old to
# what `trap -p` prints for it.
trap__find() {
  local trap__name=${1#[Ss][Ii][Gg]} trap__other
  trap__name=${trap__name^^}
  if [[ $trap__name == ERR || $trap__name == DEBUG || $trap__name == RETURN ]]; then
    printf '%s: %s: a function does not see this trap of its caller: use trap itself\n' "$trap__verb" "$1" >&2
    return 1
  fi
  if ! trap__old=$(trap -p -- "$1" 2>/dev/null && kill -l -- "$trap__name"); then
    printf '%s: %s: no such signal\n' "$trap__verb" "$1" >&2
    return 1
  fi
  # kill -l turns a name into a number, and a number into a name.
  trap__other=${trap__old##*$'\n'}
  trap__old=${trap__old%"$trap__other"}
  if [[ $trap__name == *[!0-9]* ]]; then
    trap__number=$trap__other
  else
    trap__number=$((10#$trap__name))
    trap__name=$trap__other
  fi
  if [[ $trap__name == KILL || $trap__name == STOP ]]; then
    printf '%s: %s: nobody can catch this signal\n' "$trap__verb" "$1" >&2
    return 1
  fi
}


# trap__status STATUS sets $? for the command that follows.
trap__status() {
  return "$1"
}

# trap__on_exit STATUS COUNT ARGUMENT... COMMAND... runs the commands for EXIT.
# The shell ends when it returns, so it need not tidy up.
trap__on_exit() {
  trap__exit_shell=$BASHPID trap__exit_status=$1 trap__exit_next=0
  trap__exit_chain=("${@:3+$2}") trap__exit_arguments=("${@:3:$2}")
  # Traps that end with exit are common, and would skip the remaining commands.
  # In POSIX mode a function cannot replace a special builtin: there exit skips
  # them.
  if [[ ! -o posix ]]; then
    eval 'exit() { trap__exit "$?" "$@"; }'
  fi
  trap__exit_rest
}

# trap__exit STATUS [CODE] replaces exit in a command for EXIT.
trap__exit() {
  local trap__code=$1
  shift
  if [[ $BASHPID == "${trap__exit_shell-}" ]]; then
    trap__code=$trap__exit_status
    trap__exit_rest
  fi
  if (($# == 0)); then
    set -- "$trap__code"
  fi
  builtin exit "$@"
}

# trap__exit_rest runs the commands that did not run yet.
trap__exit_rest() {
  while ((trap__exit_next < ${#trap__exit_chain[@]})); do
    trap__exit_run "${trap__exit_chain[trap__exit_next++]}" \
      ${trap__exit_arguments[@]+"${trap__exit_arguments[@]}"} || :
  done
}

# trap__exit_run COMMAND ARGUMENT... runs one command, with the script's
# arguments.
trap__exit_run() {
  local trap__command=$1
  shift
  trap__status "$trap__exit_status"
  eval "$trap__command"
}

export -f trap_add trap_del
export -f trap__edit trap__find trap__frame trap__parse trap__remove trap__set
export -f trap__status trap__on_exit trap__exit trap__exit_rest trap__exit_run
