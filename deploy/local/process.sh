# shellcheck shell=bash
# Servers as processes of this machine. A server is known by a file
# $SERVICES_DIR/run/NAME that holds its process id and when that process
# started (field 22 of /proc/PID/stat): an id that was given to another process
# since is never signalled.

# Where a server in the tree, or in a container, sees its data.
# shellcheck disable=SC2034 # used by the files beside this one
readonly DATA_IN_TREE=/srv

# launch NAME COMMAND... starts COMMAND in a session of its own.
launch() {
	local name=$1
	shift
	setsid "$@" >>"$SERVICES_DIR/log/$name" 2>&1 </dev/null 9>&- &
	remember "$name" $!
}

# launch_in_tree NAME USER COMMAND... starts COMMAND inside the Debian tree as
# USER, its data at $DATA_IN_TREE. The mounts belong to the process alone: they
# go with it, and the tree stays as it is for others.
launch_in_tree() {
	local name=$1 user=$2
	shift 2
	local data=$SERVICES_DIR/data/$name
	chown "$(owner_in_tree "$user")" "$data"
	launch "$name" "${ENTER_TREE[@]}" "$data" "$user" "$@"
}

# run_in_tree NAME USER COMMAND... is launch_in_tree that waits.
run_in_tree() {
	local name=$1 user=$2
	shift 2
	local data=$SERVICES_DIR/data/$name
	chown "$(owner_in_tree "$user")" "$data"
	"${ENTER_TREE[@]}" "$data" "$user" "$@" >>"$SERVICES_DIR/log/$name" 2>&1 </dev/null
}

# The arguments that follow: data folder, user, command.
# shellcheck disable=SC2016 # expanded by the inner shell
readonly ENTER_TREE=(unshare --mount --propagation private bash -c '
	set -e
	tree=$0 data=$1 user=$2
	shift 2
	mount --bind "$data" "$tree/srv"
	mount -t proc proc "$tree/proc"
	mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
	exec chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
		setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs "$@"' "$TREE")

owner_in_tree() { awk -F: -v user="$1" '$1 == user { print $3 ":" $4 }' "$TREE/etc/passwd"; }

remember() { echo "$2 $(started_at "$2")" >"$SERVICES_DIR/run/$1"; }

# started_at PID is when the process started, in clock ticks since boot; empty
# when there is none.
started_at() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	stat=${stat##*) } # the name before may hold blanks
	cut -d' ' -f20 <<<"$stat"
}

# pid_of NAME prints the process id if the server runs.
pid_of() {
	local pid started
	[[ -r $SERVICES_DIR/run/$1 ]] || return 1
	read -r pid started <"$SERVICES_DIR/run/$1"
	[[ -n $started && $(started_at "$pid") == "$started" && $(process_state "$pid") != Z ]] || return 1
	echo "$pid"
}

process_state() { sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null; }

# family PID prints it and all its descendants: PostgreSQL's backends are
# sessions of their own.
family() {
	local child
	echo "$1"
	local children=()
	read -ra children 2>/dev/null <"/proc/$1/task/$1/children" || true
	for child in "${children[@]}"; do
		family "$child"
	done
}

signal() {
	local pids
	pids=$(family "$2") # before the first of them goes
	# shellcheck disable=SC2086
	kill -"$1" $pids 2>/dev/null || true
}

process_state_of() {
	local pid
	pid=$(pid_of "$1") || { echo stopped && return; }
	if [[ $(process_state "$pid") == T ]]; then echo paused; else echo running; fi
}

# process_end NAME SIGNAL ends the server, with KILL if it does not go in 20 s.
process_end() {
	local name=$1 signal=$2 pid
	pid=$(pid_of "$name") || return 0
	if [[ $signal == KILL ]]; then
		signal KILL "$pid"
	else
		signal CONT "$pid"
		kill -"$signal" "$pid" 2>/dev/null || true
	fi
	if ! wait_until 20 gone "$name"; then
		say "$name does not stop: killing it"
		signal KILL "$pid"
		wait_until 5 gone "$name" || die "$name (process $pid) cannot be killed"
	fi
	# PostgreSQL does not start beside a process of that id, be it a zombie.
	wait_until 3 reaped "$pid" || true
}

gone() { ! pid_of "$1" >/dev/null; }
reaped() { [[ ! -e /proc/$1 ]]; }

process_pause() { signal STOP "$(pid_of "$1")"; }
process_resume() { signal CONT "$(pid_of "$1")"; }
