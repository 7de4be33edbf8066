# shellcheck shell=bash
# Redis, PostgreSQL and PgBouncer as containers, where a Docker engine answers. They use
# the host's network, as the processes do, so this is for Linux.

readonly REDIS_IMAGE=${REDIS_IMAGE:-redis:8}
readonly POSTGRES_IMAGE=${POSTGRES_IMAGE:-pgvector/pgvector:pg17}
readonly PGBOUNCER_IMAGE=${PGBOUNCER_IMAGE:-edoburu/pgbouncer:v1.24.1-p1} # pulled where it is started

# What a server's container needs beside the options of all of them.
CONTAINER_OPTIONS=()

pull_images() {
	local image
	for image in "$REDIS_IMAGE" "$POSTGRES_IMAGE"; do
		docker image inspect "$image" >/dev/null 2>&1 && continue
		say "pulling $image"
		docker pull -q "$image" >/dev/null || die "docker cannot pull $image"
	done
}

# container NAME is its container: folders do not share any.
container() { echo "tierd-$(cksum <<<"$SERVICES_DIR" | cut -d' ' -f1)-$1"; }

# launch_container NAME IMAGE COMMAND... runs COMMAND with the server's data
# where the tree would have it.
launch_container() {
	local name=$1 image=$2
	shift 2
	docker rm -f "$(container "$name")" >/dev/null 2>&1 || true
	docker run -d --name "$(container "$name")" --network host --user "$(id -u):$(id -g)" \
		-v "$SERVICES_DIR/data/$name:$DATA_IN_TREE" -e PGDATA="$DATA_IN_TREE/cluster" \
		-e POSTGRES_USER=tierd -e POSTGRES_HOST_AUTH_METHOD=trust \
		-e POSTGRES_INITDB_ARGS="${INITDB_OPTIONS[*]}" "${CONTAINER_OPTIONS[@]}" \
		"$image" "$@" >/dev/null
}

container_state_of() {
	case $(docker inspect -f '{{.State.Status}}' "$(container "$1")" 2>/dev/null) in
	running) echo running ;;
	paused) echo paused ;;
	*) echo stopped ;;
	esac
}

container_end() {
	case $2 in
	KILL) docker kill "$(container "$1")" >/dev/null 2>&1 || true ;;
	*) docker stop -t 20 "$(container "$1")" >/dev/null 2>&1 || true ;;
	esac
}

container_pause() { docker pause "$(container "$1")" >/dev/null; }
container_resume() { docker unpause "$(container "$1")" >/dev/null; }
container_remove() { docker rm -fv "$(container "$1")" >/dev/null 2>&1 || true; }
