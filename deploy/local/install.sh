# shellcheck shell=bash
# What is slow to fetch: a Debian tree that holds Redis, PostgreSQL and PgBouncer,
# and MinIO built from source. Both are kept in $SERVICES_CACHE, never changed once
# they stand, and shared by every folder of services on the machine.

readonly SUITE=trixie # the first Debian with Redis 8 and PostgreSQL 17 + pgvector
readonly MINIO=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
readonly PACKAGES=ca-certificates,redis-server,redis-sentinel,postgresql-17-pgvector,pgbouncer
readonly TREE=$SERVICES_CACHE/$SUITE-2 # counted on whenever PACKAGES changes
readonly MINIO_BINARY=$SERVICES_CACHE/bin/minio-${MINIO##*-}

install_all() {
	mkdir -p "$SERVICES_CACHE"
	exec 8>"$SERVICES_CACHE/lock" # two installations at once would fetch twice
	flock 8
	if with_docker; then
		pull_images
	else
		install_tree
	fi
	install_minio
	exec 8>&-
}

install_tree() {
	[[ -e $TREE/usr/sbin/chroot && -e $TREE/.complete ]] && return
	[[ $EUID -eq 0 ]] || die "root is needed to make a Debian tree: run as root, or start a Docker engine"
	need_commands debootstrap curl flock unshare setpriv
	local mirror unfinished=$SERVICES_CACHE/unfinished
	mirror=$(debian_mirror)
	say "installing Debian $SUITE with Redis, PostgreSQL and PgBouncer from $mirror (1 to 3 minutes)"
	rm -rf --one-file-system "$unfinished" "$TREE"
	http_proxy=$(apt_proxy) debootstrap --variant=minbase --include="$PACKAGES" \
		"$SUITE" "$unfinished" "$mirror" >"$SERVICES_CACHE/debootstrap.log" 2>&1 ||
		die "debootstrap failed: see $SERVICES_CACHE/debootstrap.log and $unfinished/debootstrap/debootstrap.log"
	rm -rf "$unfinished"/var/cache/apt/* "$unfinished"/var/lib/apt/lists/*
	touch "$unfinished/.complete"
	mv "$unfinished" "$TREE"
}

install_minio() {
	[[ -x $MINIO_BINARY ]] && return
	command -v go >/dev/null || die "Go is needed to build MinIO"
	say "building $MINIO (2 to 4 minutes)"
	local bin=$SERVICES_CACHE/bin
	# -p 1: the compiler of the largest packages takes a gigabyte.
	(cd "$SERVICES_CACHE" && GOBIN=$bin GOWORK=off CGO_ENABLED=0 nice go install -p 1 -trimpath "$MINIO") \
		>"$SERVICES_CACHE/minio.log" 2>&1 || die "MinIO does not build: see $SERVICES_CACHE/minio.log"
	mv "$bin/minio" "$MINIO_BINARY"
}

# debian_mirror is the mirror of this machine's own packages.
debian_mirror() {
	if [[ -n ${DEBIAN_MIRROR:-} ]]; then
		echo "$DEBIAN_MIRROR"
		return
	fi
	local targets mirror
	# shellcheck disable=SC2016 # apt fills these in
	targets=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Identifier: Packages')
	mirror=$(sed -n 's/^Debian \(http.*\|file:.*\)/\1/p' <<<"$targets" | head -1)
	echo "${mirror:?apt knows no Debian mirror: run apt-get update, or set DEBIAN_MIRROR}"
}

apt_proxy() {
	local proxy=${http_proxy:-}
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	echo "$proxy"
}

# need_commands installs what the machine lacks.
need_commands() {
	local command missing=()
	for command in "$@"; do
		command -v "$command" >/dev/null || missing+=("$(package_of "$command")")
	done
	((${#missing[@]} == 0)) && return
	say "installing ${missing[*]}"
	apt-get update -qq >/dev/null || die "apt-get update failed"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		die "apt-get cannot install ${missing[*]}"
}

package_of() {
	case $1 in
	flock | unshare | setpriv) echo util-linux ;;
	*) echo "$1" ;;
	esac
}
