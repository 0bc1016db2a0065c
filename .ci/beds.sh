#!/usr/bin/env bash
# Real counterparts for the tests, as private instances on loopback that nobody else uses.
#
#   .ci/beds.sh start DIR   start Redis (standalone, Cluster 3+3, Sentinel trio), PostgreSQL, Vault and OpenSSH with their state in DIR;
#                           DIR/env then holds the EBB_TEST_ variables: . DIR/env && go test ./...
#   .ci/beds.sh build       build what is built and not installed (Vault: 4 minutes, once), so that start need not
#   .ci/beds.sh stop DIR    stop them and remove DIR
#
# Needs redis-server, redis-cli, PostgreSQL's server programs, sshd and Go. As root, PostgreSQL runs as the user postgres.
set -euo pipefail

die() { echo "beds: $*" >&2; exit 1; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ebb-beds

# Vault is built where it is tested (BUSL-1.1: its binary is not shipped), and kept by the hash of its sources.
vault_bin() { echo "$cache/vaultbed-$(cat "$here"/vaultbed/* | sha256sum | cut -c1-16)"; }
build_vault() {
  local bin
  bin=$(vault_bin)
  [ -x "$bin" ] && return
  echo "beds: building Vault, some minutes the first time" >&2
  mkdir -p "$cache"
  (cd "$here/vaultbed" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -o "$bin.new" .) && mv "$bin.new" "$bin"
}
case "${1:-}" in
build) build_vault; exit ;;
start | stop) [ -n "${2:-}" ] || die "usage: $0 start|stop DIR" ;;
*) die "usage: $0 build | start|stop DIR" ;;
esac
verb=$1
mkdir -p "$2"
D=$(cd "$2" && pwd)

# base gives a port P such that nothing listens on P..P+n-1, nor, for Redis Cluster's bus, 10000 above them.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
base() {
  local p i ok
  for p in $(seq "$1" 20 "$(($1 + 1000))"); do
    ok=1
    for i in $(seq 0 $(($2 - 1))); do
      if taken $((p + i)) || taken $((p + i + 10000)); then ok=0; break; fi
    done
    if [ $ok = 1 ]; then echo "$p"; return; fi
  done
  die "no free ports from $1"
}

# until_ok SECONDS WHAT COMMAND... waits for the command to succeed.
until_ok() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "$what did not come up; its log is in $D"
    sleep 0.1
  done
}

redis() { # redis DIR PORT [ARGS...]
  local dir=$1 port=$2
  shift 2
  mkdir -p "$dir"
  redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --daemonize yes --pidfile "$dir/pid" --logfile "$dir/log" \
    --appendonly yes --appendfsync everysec --save '' --maxmemory-policy noeviction --enable-debug-command local "$@"
  until_ok 10 "Redis on port $port" ping_redis "$port"
}
ping_redis() { [ "$(redis-cli -p "$1" ping)" = PONG ]; }

standalone() {
  local p
  p=$(base 17100 1)
  redis "$D/redis" "$p"
  echo "export EBB_TEST_REDIS=127.0.0.1:$p" >>"$D/env"
}

cluster() {
  local p i nodes=()
  p=$(base 18200 6)
  for i in 0 1 2 3 4 5; do
    redis "$D/cluster/$i" $((p + i)) --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 2000
    nodes+=("127.0.0.1:$((p + i))")
  done
  redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >"$D/cluster/create.log"
  for i in 0 1 2 3 4 5; do until_ok 20 "Redis Cluster" cluster_ok $((p + i)); done
  echo "export EBB_TEST_REDIS_CLUSTER=$(IFS=,; echo "${nodes[*]}")" >>"$D/env"
}
cluster_ok() { redis-cli -p "$1" cluster info | grep -q cluster_state:ok && [ "$(redis-cli -p "$1" cluster nodes | grep -c slave)" = 3 ]; }

sentinel() {
  local p i q addrs=()
  p=$(base 19300 3)
  redis "$D/sentinel/0" "$p"
  for i in 1 2; do redis "$D/sentinel/$i" $((p + i)) --replicaof 127.0.0.1 "$p"; done
  q=$(base 19400 3)
  for i in 0 1 2; do
    mkdir -p "$D/sentinel/s$i"
    cat >"$D/sentinel/s$i/sentinel.conf" <<C
bind 127.0.0.1
port $((q + i))
dir $D/sentinel/s$i
daemonize yes
pidfile $D/sentinel/s$i/pid
logfile $D/sentinel/s$i/log
sentinel monitor ebb 127.0.0.1 $p 2
sentinel down-after-milliseconds ebb 1000
sentinel failover-timeout ebb 5000
C
    redis-server "$D/sentinel/s$i/sentinel.conf" --sentinel
    addrs+=("127.0.0.1:$((q + i))")
  done
  for i in 0 1 2; do until_ok 30 "Sentinel" sentinel_ok $((q + i)); done
  printf 'export EBB_TEST_REDIS_SENTINEL=%s\nexport EBB_TEST_REDIS_MASTER=ebb\n' "$(IFS=,; echo "${addrs[*]}")" >>"$D/env"
}
sentinel_ok() {
  redis-cli -p "$1" sentinel ckquorum ebb | grep -q '^OK 3' && [ "$(redis-cli -p "$1" sentinel replicas ebb | grep -c '^name')" = 2 ]
}

pg() { # a PostgreSQL program, as a user that it accepts
  local bin
  bin=$(pg_bin)
  if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$bin/$1" "${@:2}"); else "$bin/$1" "${@:2}"; fi
}
pg_bin() {
  local bin
  for bin in /usr/lib/postgresql/*/bin "$(dirname "$(command -v initdb || echo /nowhere/initdb)")"; do
    [ -x "$bin/initdb" ] && found=$bin
  done
  [ -n "${found:-}" ] || die "PostgreSQL's server programs are not installed"
  echo "$found"
}

postgres() {
  local p
  p=$(base 15400 1)
  mkdir -p "$D/postgres"
  head -c 18 /dev/urandom | base64 | tr '+/' 'ab' >"$D/postgres/password"
  if [ "$(id -u)" = 0 ]; then
    chmod 711 "$D"
    chown -R postgres "$D/postgres"
  fi
  pg initdb -D "$D/postgres/data" -U ebb --pwfile="$D/postgres/password" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >"$D/initdb.log"
  # The log's file is opened by the server's user: it lives in its directory.
  pg pg_ctl -D "$D/postgres/data" -w -t 30 -l "$D/postgres/log" \
    -o "-p $p -c listen_addresses=127.0.0.1 -c unix_socket_directories=$D/postgres -c max_connections=200" start >/dev/null
  echo "export EBB_TEST_POSTGRES='postgres://ebb:$(cat "$D/postgres/password")@127.0.0.1:$p/postgres?sslmode=disable'" >>"$D/env"
}

vault() {
  local p
  build_vault
  p=$(base 28300 2)
  mkdir -p "$D/vault"
  "$(vault_bin)" -port "$p" -revoke-retry-base 200ms >"$D/vault/out" 2>"$D/vault/log" </dev/null &
  echo $! >"$D/vault/pid"
  until_ok 30 "Vault" grep -q ready "$D/vault/out"
  echo "export EBB_TEST_VAULT=http://127.0.0.1:$p" >>"$D/env"
}

# OpenSSH reads CA, revocation list and principals at each login: the tests write them into its directory. Only who runs it
# can log in.
openssh() {
  local p bin
  p=$(base 22200 1)
  bin=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || die "sshd is not installed"
  mkdir -p "$D/sshd"
  if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi
  ssh-keygen -q -t ed25519 -N '' -f "$D/sshd/hostkey"
  cat >"$D/sshd/config" <<C
ListenAddress 127.0.0.1:$p
HostKey $D/sshd/hostkey
PidFile $D/sshd/pid
TrustedUserCAKeys $D/sshd/ebb-ca.pub
RevokedKeys $D/sshd/ebb.krl
AuthorizedPrincipalsCommand /bin/sh $D/sshd/ebb-principals %u %s
AuthorizedPrincipalsCommandUser $(id -un)
AuthorizedKeysFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
MaxStartups 100
LogLevel VERBOSE
C
  # Since OpenSSH 9.8 a client that was refused is kept waiting, which is what the tests are about.
  if "$bin" -t -f "$D/sshd/config" -o PerSourcePenalties=no 2>/dev/null; then echo 'PerSourcePenalties no' >>"$D/sshd/config"; fi
  "$bin" -f "$D/sshd/config" -E "$D/sshd/log"
  until_ok 10 "sshd" taken "$p"
  echo "export EBB_TEST_SSHD=ssh://$(id -un)@127.0.0.1:$p$D/sshd" >>"$D/env"
}

stop() {
  local pidfile
  for pidfile in "$D"/vault/pid "$D"/sshd/pid "$D"/sentinel/s*/pid "$D"/sentinel/*/pid "$D"/cluster/*/pid "$D"/redis/pid; do
    if [ -f "$pidfile" ]; then kill "$(cat "$pidfile")" 2>/dev/null || true; fi
  done
  if [ -f "$D/postgres/data/postmaster.pid" ]; then pg pg_ctl -D "$D/postgres/data" -m immediate stop >/dev/null || true; fi
  # Redis writes its last file after it was told to stop.
  for _ in 1 2 3 4 5; do rm -rf "$D" 2>/dev/null && break; sleep 0.2; done
}

case $verb in
stop) stop ;;
start)
  : >"$D/env"
  chmod 600 "$D/env"
  standalone
  cluster
  sentinel
  postgres
  vault
  openssh
  ;;
esac
