# shellcheck shell=bash
# The servers: how each is started, and how it is known to answer.

readonly INITDB_OPTIONS=(
	--username=tierd --auth=trust --encoding=UTF8
	# An order that is not by bytes: a query that forgets COLLATE "C" shows.
	--locale=C.UTF-8 --locale-provider=icu --icu-locale=en-US
)

# members GROUP lists the servers that make it up, in the order of their start.
members() {
	case $1 in
	all) echo redis postgres minio minio-backup ;;
	sentinel) echo redis-primary redis-replica sentinel-1 sentinel-2 sentinel-3 ;;
	cluster) echo cluster-1 cluster-2 cluster-3 ;;
	redis | postgres | pgbouncer | minio | minio-backup | redis-primary | redis-replica | sentinel-[123] | cluster-[123]) echo "$1" ;;
	*) die "there is no server or group $1" ;;
	esac
}

# launch_server NAME starts one server. The caller has seen that it does not run.
launch_server() {
	local name=$1
	mkdir -p "$SERVICES_DIR/data/$name"
	case $name in
	redis | redis-primary) launch_redis "$name" ;;
	redis-replica) launch_redis "$name" --replicaof 127.0.0.1 "$(port redis-primary)" ;;
	sentinel-*) launch_sentinel "$name" ;;
	cluster-*)
		launch_redis "$name" --cluster-enabled yes --cluster-port "$(port "$name-bus")" \
			--cluster-node-timeout 2000 --cluster-require-full-coverage no
		;;
	postgres) launch_postgres ;;
	pgbouncer) launch_pgbouncer ;;
	minio*) launch_minio "$name" ;;
	esac
}

launch_redis() {
	local name=$1
	shift
	launch_debian "$name" redis "$REDIS_IMAGE" redis-server --port "$(port "$name")" --bind 127.0.0.1 --dir "$DATA_IN_TREE" \
		--appendonly yes --appendfsync everysec --save '' "$@"
}

# A sentinel keeps what it learns in its configuration.
launch_sentinel() {
	local name=$1
	local config=$SERVICES_DIR/data/$name/sentinel.conf
	if [[ ! -e $config ]]; then
		cat >"$config" <<-END
			port $(port "$name")
			bind 127.0.0.1
			dir $DATA_IN_TREE
			sentinel monitor tierd 127.0.0.1 $(port redis-primary) 2
			sentinel down-after-milliseconds tierd 1000
			sentinel failover-timeout tierd 5000
		END
		chmod 666 "$config"
	fi
	launch_debian "$name" redis "$REDIS_IMAGE" redis-sentinel "$DATA_IN_TREE/sentinel.conf"
}

launch_postgres() {
	local bin=/usr/lib/postgresql/17/bin cluster=$DATA_IN_TREE/cluster
	local options=(-p "$(port postgres)" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200)
	if with_docker; then
		launch_container postgres "$POSTGRES_IMAGE" postgres "${options[@]}"
		return
	fi
	if [[ ! -e $SERVICES_DIR/data/postgres/cluster/PG_VERSION ]]; then
		say "making a PostgreSQL cluster"
		run_in_tree postgres postgres "$bin/initdb" -D "$cluster" "${INITDB_OPTIONS[@]}" ||
			die "initdb failed: see $SERVICES_DIR/log/postgres"
	fi
	launch_in_tree postgres postgres "$bin/postgres" -D "$cluster" "${options[@]}"
}

# PgBouncer hands out a connection of PostgreSQL for a transaction at a time, to
# any role and for every database there.
launch_pgbouncer() {
	local config=$SERVICES_DIR/data/pgbouncer/pgbouncer.ini
	cat >"$config" <<-END
		[databases]
		* = host=127.0.0.1 port=$(port postgres)
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $(port pgbouncer)
		unix_socket_dir =
		auth_type = trust
		auth_user = tierd
		auth_dbname = postgres
		pool_mode = transaction
		default_pool_size = 8
		server_idle_timeout = 2
		max_client_conn = 500
	END
	chmod 644 "$config"
	CONTAINER_OPTIONS=(--entrypoint /usr/bin/pgbouncer --user 65534:65534)
	if with_docker; then
		launch_container pgbouncer "$PGBOUNCER_IMAGE" "$DATA_IN_TREE/pgbouncer.ini"
	else
		launch_in_tree pgbouncer postgres pgbouncer "$DATA_IN_TREE/pgbouncer.ini"
	fi
	CONTAINER_OPTIONS=()
}

launch_minio() {
	launch "$1" env MINIO_ROOT_USER=tierd MINIO_ROOT_PASSWORD="$(secret)" MINIO_BROWSER=off MINIO_UPDATE=off \
		"$MINIO_BINARY" server "$SERVICES_DIR/data/$1" --address "127.0.0.1:$(port "$1")" --quiet
}

# launch_debian NAME USER IMAGE COMMAND... runs COMMAND in the tree or in a
# container.
launch_debian() {
	local name=$1 user=$2 image=$3
	shift 3
	if with_docker; then
		launch_container "$name" "$image" "$@"
	else
		launch_in_tree "$name" "$user" "$@"
	fi
}

# answers NAME asks a server once.
answers() {
	case $1 in
	redis* | sentinel-* | cluster-*) redis_answers "$(port "$1")" ;;
	postgres) client postgres pg_isready -q -h 127.0.0.1 -p "$(port postgres)" -U tierd ;;
	pgbouncer) client postgres psql -q -h 127.0.0.1 -p "$(port pgbouncer)" -U tierd -d postgres -c 'SELECT 1' >/dev/null 2>&1 ;;
	minio*) curl -sf -m 2 -o /dev/null "http://127.0.0.1:$(port "$1")/minio/health/live" ;;
	esac
}

redis_answers() {
	local reply
	exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
	printf 'PING\r\n' >&3
	read -r -t 2 reply <&3 || true
	exec 3>&-
	[[ $reply == +PONG* ]]
} 2>/dev/null

# client NAME COMMAND... runs a command line client that came with the server.
client() {
	local name=$1
	shift
	if with_docker; then
		docker exec "$(container "$name")" "$@"
	else
		chroot "$TREE" env LC_ALL=C.UTF-8 "$@"
	fi
}

# prepare GROUP makes what servers need once they answer. Again does nothing.
prepare() {
	case $1 in
	postgres) make_database ;;
	minio) make_bucket minio tierd ;;
	minio-backup) make_bucket minio-backup tierd-backup ;;
	cluster-3) join_cluster ;;
	sentinel-3) wait_until 30 sentinels_agree || die "the sentinels do not find each other: see $SERVICES_DIR/log" ;;
	esac
}

make_database() {
	local psql=(client postgres psql -q -h 127.0.0.1 -p "$(port postgres)" -U tierd -d postgres -tA -c)
	[[ $("${psql[@]}" "SELECT 1 FROM pg_database WHERE datname = 'tierd'") == 1 ]] ||
		"${psql[@]}" 'CREATE DATABASE tierd'
}

make_bucket() {
	local code
	code=$(curl -s -m 10 -o /dev/null -w '%{http_code}' -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user "tierd:$(secret)" \
		"http://127.0.0.1:$(port "$1")/$2")
	[[ $code == 200 || $code == 409 ]] || die "$1 answers $code to the creation of bucket $2"
}

join_cluster() {
	local redis_cli=(client cluster-1 redis-cli -p "$(port cluster-1)") i nodes=()
	[[ $("${redis_cli[@]}" cluster info) == *cluster_state:ok* ]] && return
	for i in 1 2 3; do
		nodes+=("127.0.0.1:$(port "cluster-$i")")
	done
	"${redis_cli[@]}" --cluster create "${nodes[@]}" --cluster-yes >>"$SERVICES_DIR/log/cluster-1" 2>&1 || true
	wait_until 30 cluster_is_whole || die "the cluster does not form: see $SERVICES_DIR/log/cluster-1"
}

cluster_is_whole() {
	local i
	for i in 1 2 3; do
		[[ $(client "cluster-$i" redis-cli -p "$(port "cluster-$i")" cluster info) == *cluster_state:ok*cluster_known_nodes:3* ]] || return 1
	done
}

# A failover needs sentinels that know each other, and the replica in step.
sentinels_agree() {
	local i reply
	for i in 1 2 3; do
		reply=$(client "sentinel-$i" redis-cli -p "$(port "sentinel-$i")" sentinel master tierd | tr '\n' ' ')
		[[ $reply == *"num-slaves 1 "* && $reply == *"num-other-sentinels 2 "* ]] || return 1
	done
}
