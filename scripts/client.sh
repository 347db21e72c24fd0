# shellcheck shell=bash
#
# client.sh gives bash scripts the functions of the lease proxy's first client,
# implemented with leasectl:
#
#   source "$LEASE_PROXY_CLIENT_SH"
#   handle=$(lease__acquire --type=install --scope=step)
#   trap_add 'lease__release --handle="$handle"' EXIT TERM # see trap.sh
#   lease__release --delay=20m --handle="$handle" &
#
# Only data is on stdout; every message is on stderr. A function returns 0, 1,
# or another code that is described below. Nothing of the calling shell is
# changed, whatever its options are. An unknown argument is ignored with a
# warning, as before, and an option without its value is an error.
#
# The program is what $LEASECTL names, else leasectl in PATH, else the file
# leasectl beside this one.

case ${BASH_VERSION-} in
'' | [0-3].* | 4.[01].*)
  echo 'leasectl: client.sh needs bash 4.2 or newer: run the script with that, not with this shell' >&2
  # shellcheck disable=SC2317 # reached if the file is run, not sourced
  return 1 2>/dev/null || exit 1
  ;;
esac

# lease__acquire (-t|--type) TYPE [(-c|--count) N] [--scope step|test]
# [--jitter Ns|Nm] [--priority N] takes N leases, all or none, and prints the
# path of their handle without a newline. Without a count it takes 1, or from a
# counted pool the units that the pool sets as unknown. It queues until it has
# them, as many steps ahead as the priority says, from -100 to 100. With a jitter
# it first waits a random time of up to the jitter.
#
# In scope test, the default, the names are also added to $SHARED_DIR/leases.
# The leases outlive the shell. They end when they are released, by the handle,
# a copy of it, their names, or the scope, or when the pool's TTL is over.
#
# Returns 2 if there is no such type. A count of 0 prints nothing. Without
# LEASE_PROXY_SERVER_URL it prints LEASE_PROXY_SERVER_URL-not-set-dry-run-mode.
lease__acquire() {
  local lease__type='' lease__count='' lease__scope=test lease__jitter='' lease__priority='' lease__given=''
  lease__parse lease__acquire 'type count scope jitter priority' "$@" || return 1
  if [[ -z $lease__type ]]; then
    lease__fail lease__acquire '--type: name the type of the lease to take'
    return 1
  fi
  if [[ $lease__given == *' count '* ]] &&
    [[ -z $lease__count || $lease__count == *[!0-9]* ]]; then
    lease__fail lease__acquire "--count $lease__count: want a whole number"
    return 1
  fi
  if [[ $lease__scope != step && $lease__scope != test ]]; then
    lease__fail lease__acquire "--scope $lease__scope: want step or test"
    return 1
  fi
  local lease__digits=${lease__jitter%[sm]}
  if [[ $lease__given == *' jitter '* ]] &&
    [[ $lease__jitter != [1-9]*[sm] || $lease__digits == *[!0-9]* ]]; then
    lease__fail lease__acquire "--jitter $lease__jitter: want seconds or minutes, such as 30s or 15m"
    return 1
  fi
  local lease__steps=${lease__priority#-}
  if [[ $lease__given == *' priority '* ]] &&
    { [[ -z $lease__steps || $lease__steps == *[!0-9]* || ${#lease__steps} -gt 3 ]] || ((10#$lease__steps > 100)); }; then
    lease__fail lease__acquire "--priority $lease__priority: want a whole number from -100 to 100"
    return 1
  fi
  if [[ -z ${LEASE_PROXY_SERVER_URL-} && -z ${LEASECTL_REQUIRED-} ]]; then
    printf 'LEASE_PROXY_SERVER_URL-not-set-dry-run-mode\n'
    return 0
  fi
  if [[ -n $lease__count && -z ${lease__count//0/} ]]; then
    return 0
  fi
  if [[ $lease__scope == test && -z ${SHARED_DIR-} ]]; then
    lease__fail lease__acquire '--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names'
    return 1
  fi

  # leasectl prints the handle itself: if nobody reads its output, it gives the
  # lease back. A printf here would die of SIGPIPE, and the lease would stay.
  set -- --type="$lease__type" --scope="$lease__scope"
  if [[ -n $lease__count ]]; then
    set -- "$@" --count="$lease__count"
  fi
  if [[ -n $lease__jitter ]]; then
    set -- "$@" --jitter="$lease__jitter"
  fi
  if [[ -n $lease__priority ]]; then
    set -- "$@" --priority="$lease__priority"
  fi
  local lease__status=0
  lease__leasectl lease__acquire acquire --no-newline "$@" || lease__status=$?
  case $lease__status in
  0 | 2) return "$lease__status" ;;
  *) return 1 ;;
  esac
}

# lease__release ((-n|--names) A,B | --handle PATH | --scope test) [--delay D]
# gives leases back and prints `A,B released`, or nothing if there was nothing
# to release: releasing again does nothing. An empty handle counts as no handle.
#
# With a delay, 20m, 90 or 1.5h as for sleep, it waits first. That is meant for
# the background: if it is killed meanwhile, it releases nothing and leaves
# nothing behind; when the shell that started it has ended, it releases at once.
#
# If the proxy does not answer, it gives up after 10 s, and can be called again.
lease__release() {
  local lease__names='' lease__handle='' lease__scope='' lease__delay='' lease__given=''
  lease__parse lease__release 'names handle scope delay' "$@" || return 1
  set --
  if [[ -n $lease__names ]]; then
    set -- "$@" --names="$lease__names"
  fi
  if [[ $lease__given == *' handle '* ]]; then
    set -- "$@" --handle="$lease__handle"
  fi
  if [[ -n $lease__scope ]]; then
    set -- "$@" --scope="$lease__scope"
  fi
  if (($# != 1)); then
    lease__fail lease__release 'want one of --names, --handle and --scope test: what is to be released'
    return 1
  fi
  if [[ -n $lease__scope && $lease__scope != test ]]; then
    lease__fail lease__release "--scope $lease__scope: want test"
    return 1
  fi
  lease__sleep || return 1
  if [[ -z ${LEASE_PROXY_SERVER_URL-} && -z ${LEASECTL_REQUIRED-} ]]; then
    lease__dry_release
    return
  fi
  if [[ $lease__given == *' handle '* && -z $lease__handle ]]; then
    return 0
  fi
  if [[ -n $lease__scope && -z ${SHARED_DIR-} ]]; then
    lease__fail lease__release '--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names'
    return 1
  fi

  if [[ -n $lease__delay ]]; then
    # $$ is the step. $BASHPID is this shell, in the background, which may be
    # killed.
    set -- "$@" --delay="$lease__delay" --owner-pid="$$" --caller-pid="$BASHPID"
  fi
  local lease__released
  lease__released=$(lease__run='exec' lease__leasectl lease__release release "$@") || return 1
  if [[ -n $lease__released ]]; then
    lease__released=${lease__released//$'\n'/,}
    printf '%s released\n' "$lease__released"
  fi
}

# lease__cat --handle PATH [--format plain|csv | --pretty-format plain|csv]
# prints the names of a handle's leases, one a line or separated by commas. The
# csv format has no newline at its end, the pretty one has. A handle that is
# missing or empty prints nothing.
lease__cat() {
  local lease__handle='' lease__format=plain lease__pretty_format='' lease__given=''
  lease__parse lease__cat 'handle format pretty-format' "$@" || return 1
  local lease__as=$lease__format lease__pretty=''
  if [[ $lease__given == *' pretty-format '* ]]; then
    lease__as=$lease__pretty_format lease__pretty=yes
  fi
  if [[ $lease__as != plain && $lease__as != csv ]]; then
    lease__fail lease__cat "--format $lease__as: want plain or csv"
    return 1
  fi
  if [[ -z $lease__handle || ! -s $lease__handle ]]; then
    return 0
  fi
  if [[ $lease__as == plain || -n $lease__pretty ]]; then
    lease__leasectl lease__cat cat --handle="$lease__handle" --format="$lease__as" || return 1
    return 0
  fi
  local lease__names
  lease__names=$(lease__run='exec' lease__leasectl lease__cat cat --handle="$lease__handle" --format=csv) || return 1
  printf %s "$lease__names"
}

# lease__install_lease_eligible returns 0 if jobs of this cluster profile set
# take install leases, else 1.
lease__install_lease_eligible() {
  [[ ${CLUSTER_PROFILE_SET_NAME-} == openshift-org-?* ]]
}

# lease__parse FUNCTION OPTIONS ARGUMENT... sets lease__NAME to the value of
# each --NAME that is one of OPTIONS, and adds NAME to lease__given. The last
# value counts, except where a lease would then stay held: names add up, and a
# second handle is an error.
lease__parse() {
  local lease__function=$1 lease__options=" $2 " lease__name lease__value
  shift 2
  while (($# > 0)); do
    case $1 in
    -t) lease__name='type' ;;
    -c) lease__name=count ;;
    -n) lease__name=names ;;
    --?*) lease__name=${1#--} lease__name=${lease__name%%=*} ;;
    *) lease__name='' ;;
    esac
    if [[ -z $lease__name || $lease__options != *" $lease__name "* ]]; then
      lease__fail "$lease__function" "ignoring the argument $1"
      shift
      continue
    fi
    if [[ $1 == *=* ]]; then
      lease__value=${1#*=}
    elif (($# > 1)); then
      lease__value=$2
      shift
    else
      lease__fail "$lease__function" "$1: want a value"
      return 1
    fi
    shift
    if [[ $lease__name == names && -n $lease__names ]]; then
      lease__value=$lease__names${lease__value:+,$lease__value}
    elif [[ $lease__name == handle && -n $lease__handle && $lease__value != "$lease__handle" ]]; then
      if [[ -n $lease__value ]]; then
        lease__fail "$lease__function" "--handle $lease__value: want one handle: call the function once for each"
        return 1
      fi
      lease__value=$lease__handle # an empty handle does not replace it
    fi
    printf -v "lease__${lease__name//-/_}" %s "$lease__value"
    lease__given+=" $lease__name "
  done
}

# lease__sleep converts lease__delay from the syntax of sleep to that of
# leasectl. A delay of zero becomes empty.
lease__sleep() {
  if [[ -z $lease__delay ]]; then
    return 0
  fi
  local lease__number=${lease__delay%[smhd]} lease__unit=s
  if [[ $lease__number != "$lease__delay" ]]; then
    lease__unit=${lease__delay:${#lease__number}}
  fi
  if [[ $lease__number != *[0-9]* || $lease__number == *[!0-9.]* || $lease__number == *.*.* ]]; then
    lease__fail lease__release "--delay $lease__delay: want a time such as 20m, 90 or 1.5h"
    return 1
  fi
  lease__delay=$lease__number$lease__unit
  if [[ -z ${lease__number//[0.]/} ]]; then
    lease__delay=''
  elif [[ $lease__unit == d ]]; then # leasectl has no unit for days, but adds up
    local lease__hour
    lease__delay=''
    for ((lease__hour = 0; lease__hour < 24; lease__hour++)); do
      lease__delay+=${lease__number}h
    done
  fi
}

# lease__dry_release says what would be released.
lease__dry_release() {
  if [[ -n $lease__scope && -n ${SHARED_DIR-} ]]; then
    lease__handle=$SHARED_DIR/leases
  fi
  if [[ -z $lease__names ]]; then
    lease__names=$(lease__cat --handle="$lease__handle" --format=csv) || return 1
  fi
  printf 'LEASE_PROXY_SERVER_URL not set, dry run mode: it would release "%s"\n' "$lease__names"
}

# lease__leasectl FUNCTION ARGUMENT... runs leasectl for a function. With
# lease__run=exec leasectl replaces the shell, which saves a process in a $( ).
# Settings for which a function has options do not come from the environment.
lease__leasectl() {
  local lease__program=${LEASECTL-} lease__function=$1
  shift
  if [[ -n $lease__program ]]; then
    if ! type -P -- "$lease__program" >/dev/null; then
      lease__fail "$lease__function" "LEASECTL=$lease__program cannot be run: set it to the path of leasectl, or unset it"
      return 1
    fi
  elif type -P leasectl >/dev/null; then
    lease__program=leasectl
  else
    lease__beside
    if [[ ! -x $lease__program ]]; then
      lease__fail "$lease__function" 'leasectl is neither in PATH nor beside client.sh: put it there, or set LEASECTL to its path'
      return 1
    fi
  fi
  LEASECTL_OUTPUT='' LEASECTL_SCOPE='' LEASECTL_DELAY='' LEASECTL_DETACH='' LEASECTL_OWNER_PID='' LEASECTL_JITTER='' \
    "${lease__run-command}" -- "$lease__program" "$@"
}

# lease__fail FUNCTION TEXT prints a message.
lease__fail() {
  printf 'leasectl: %s: %s\n' "$1" "$2" >&2
}

# lease__locate FILE defines lease__beside, which sets lease__program to the
# path of leasectl beside FILE. It is a function, because an exported function
# reaches a child without a variable of the script.
lease__locate() {
  local lease__directory=${1%/*}
  if [[ $lease__directory == "$1" ]]; then
    lease__directory=.
  fi
  if [[ $lease__directory != /* ]]; then
    lease__directory=$PWD/$lease__directory
  fi
  printf -v lease__directory %q "$lease__directory/leasectl"
  eval "lease__beside() { lease__program=$lease__directory; }"
}
lease__locate "${BASH_SOURCE[0]-}"
unset -f lease__locate

export -f lease__acquire lease__release lease__cat lease__install_lease_eligible
export -f lease__parse lease__sleep lease__dry_release lease__leasectl lease__fail lease__beside
