#!/usr/bin/env bash
# Real counterparts for the tests, as private instances on loopback for these tests alone.
#
#   .ci/beds.sh start DIR   start Redis (standalone, Cluster 3+3, Sentinel trio), PostgreSQL, Vault, OpenSSH, Ceph RGW, a mail server, containerd and Docker with their state in DIR;
#                           DIR/env then holds the EBB_TEST_ variables: . DIR/env && go test ./...
#   .ci/beds.sh build       build what is built and not installed (Vault: 4 minutes, once), so that start need not; prints where it is
#   .ci/beds.sh stop DIR    stop them and remove DIR
#
# Needs redis-server, redis-cli, PostgreSQL's server programs, sshd, radosgw with ceph-mon, ceph-osd and ceph-common, aiosmtpd with openssl, and Go. containerd (with ctr and runc) and
# Docker (with busybox, linked statically) are for root alone, on a machine that makes containers; elsewhere they are left out, with a word why. As root, PostgreSQL runs as the user postgres.
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
build) build_vault; vault_bin; exit ;;
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
  echo "export EBB_TEST_VAULT=http://127.0.0.1:$p EBB_TEST_VAULT_SERVER=$(vault_bin)" >>"$D/env"
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

# Ceph's RADOS Gateway: STS, IAM and S3 on one monitor and one OSD in memory. Its user may manage roles, as the broker's own
# identity at AWS does.
rgw() {
  local p q conf=$D/rgw/ceph.conf fsid osd name secret
  command -v radosgw >/dev/null || die "radosgw is not installed"
  p=$(base 17400 2)
  q=$(base 17480 1)
  mkdir -p "$D"/rgw/{mon,osd,run}
  fsid=$(cat /proc/sys/kernel/random/uuid)
  osd=$(cat /proc/sys/kernel/random/uuid)
  cat >"$conf" <<C
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$p,v1:127.0.0.1:$((p + 1))]
ms bind ipv4 = true
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth allow insecure global id reclaim = false
keyring = $D/rgw/keyring
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 2000
mon data avail crit = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
run dir = $D/rgw/run
admin socket = $D/rgw/run/\$name.asok
log file = $D/rgw/\$name.log
[mon]
mon data = $D/rgw/mon
[osd]
osd data = $D/rgw/osd
osd objectstore = memstore
memstore device bytes = 1073741824
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:$q
rgw sts key = $(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n')
rgw s3 auth use sts = true
rgw enable apis = s3, sts, iam, admin
rgw dns name = api.example.com
C
  export CEPH_CONF=$conf
  {
    ceph-authtool --create-keyring "$D/rgw/keyring" --gen-key -n mon. --cap mon 'allow *'
    for name in client.admin client.rgw; do ceph-authtool "$D/rgw/keyring" --gen-key -n $name --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'; done
    ceph-authtool "$D/rgw/keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *'
    monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$p,v1:127.0.0.1:$((p + 1))]" "$D/rgw/monmap"
    ceph-mon --mkfs -i a --monmap "$D/rgw/monmap" --mon-data "$D/rgw/mon" --keyring "$D/rgw/keyring"
    ceph-mon -i a --mon-data "$D/rgw/mon" --pid-file "$D/rgw/mon.pid"
    until_ok 30 "Ceph's monitor" timeout 5 ceph -s
    timeout 30 ceph osd new "$osd"
    timeout 30 ceph-osd -i 0 --mkfs --osd-uuid "$osd" --osd-data "$D/rgw/osd"
    ceph-osd -i 0 --osd-data "$D/rgw/osd" --pid-file "$D/rgw/osd.pid" --crush-location "root=default host=h"
    until_ok 30 "Ceph's OSD" osd_up
    secret=$(head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n')
    timeout 60 radosgw-admin -n client.rgw user create --uid broker --display-name broker --access-key EBBBROKER --secret-key "$secret"
    timeout 60 radosgw-admin -n client.rgw caps add --uid broker --caps 'roles=*;user-policy=*;oidc-provider=*'
    radosgw -n client.rgw --pid-file "$D/rgw/rgw.pid"
  } >"$D/rgw/start.log" 2>&1
  until_ok 60 "Ceph RGW" curl -s -o /dev/null "http://127.0.0.1:$q/"
  unset CEPH_CONF
  echo "export EBB_TEST_RGW=http://EBBBROKER:$secret@127.0.0.1:$q" >>"$D/env"
}
osd_up() { timeout 5 ceph osd stat | grep -q '1 up'; }

# A mail server with STARTTLS that keeps what it takes in a Maildir.
mail() {
  local p
  command -v aiosmtpd >/dev/null || die "aiosmtpd is not installed (python3-aiosmtpd)"
  p=$(base 25200 1)
  mkdir -p "$D/smtp"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$D/smtp/key.pem" -out "$D/smtp/ca.pem" 2>/dev/null
  aiosmtpd -n -l "127.0.0.1:$p" --tlscert "$D/smtp/ca.pem" --tlskey "$D/smtp/key.pem" -c aiosmtpd.handlers.Mailbox "$D/smtp/maildir" >"$D/smtp/log" 2>&1 </dev/null &
  echo $! >"$D/smtp/pid"
  echo "smtp://127.0.0.1:$p" >"$D/smtp/server"
  until_ok 20 "the mail server" taken "$p"
  echo "export EBB_TEST_SMTP=$D/smtp" >>"$D/env"
}

# containerd makes containers for root, where the kernel lets it: a container that runs this file may not.
containerd_bed() {
  local c=$D/containerd dir mounts=()
  if [ "$(id -u)" != 0 ] || ! command -v containerd ctr >/dev/null; then echo 'beds: no containerd: it needs root, containerd and ctr' >&2; return; fi
  mkdir -p "$c/rootfs"
  cat >"$c/config.toml" <<C
version = 2
root = "$c/root"
state = "$c/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "$c/sock"
[ttrpc]
address = "$c/sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "$c/opt"
C
  PATH=$PATH:/usr/sbin:/sbin containerd --config "$c/config.toml" >"$c/log" 2>&1 </dev/null &
  echo $! >"$c/pid"
  if ! (until_ok 20 containerd ctr -a "$c/sock" version); then return; fi
  for dir in /usr /lib /lib64 /bin; do if [ -e $dir ]; then mounts+=(--mount "type=bind,src=$dir,dst=$dir,options=rbind:ro"); fi; done
  if timeout 30 ctr -a "$c/sock" -n ebb-beds run --rm --null-io --rootfs "${mounts[@]}" "$c/rootfs" probe /bin/true >"$c/probe.log" 2>&1; then
    echo "export EBB_TEST_CONTAINERD=$c/sock" >>"$D/env"
  else
    echo "beds: no containerd: it makes no containers here: $(tail -n 1 "$c/probe.log")" >&2
  fi
}
# A container outlives containerd: its shim is a process of its own.
stop_containerd() {
  local c=$D/containerd ns id
  [ -f "$c/pid" ] || return 0
  for ns in $(timeout 5 ctr -a "$c/sock" ns ls -q 2>/dev/null); do
    for id in $(timeout 5 ctr -a "$c/sock" -n "$ns" tasks ls -q 2>/dev/null); do timeout 5 ctr -a "$c/sock" -n "$ns" tasks rm -f "$id" >/dev/null 2>&1 || true; done
  done
  kill "$(cat "$c/pid")" 2>/dev/null || true
}

# A daemon of Docker that changes nothing of the machine's network, and an image without a registry.
docker_bed() {
  local c=$D/docker busybox applet
  export DOCKER_HOST=unix://$c/sock
  if [ "$(id -u)" != 0 ] || ! PATH=$PATH:/usr/sbin:/sbin command -v dockerd >/dev/null || ! command -v docker >/dev/null; then echo 'beds: no Docker: it needs root, dockerd and docker' >&2; return; fi
  busybox=$(command -v busybox) && ! ldd "$busybox" >/dev/null 2>&1 || { echo 'beds: no Docker: its image needs busybox-static' >&2; return; }
  mkdir -p "$c"/image/{bin,etc,tmp}
  PATH=$PATH:/usr/sbin:/sbin dockerd --data-root "$c/root" --exec-root "$c/exec" --pidfile "$c/pid" -H "$DOCKER_HOST" \
    --iptables=false --bridge=none --ip-forward=false --ip-masq=false >"$c/log" 2>&1 </dev/null &
  if ! (until_ok 30 Docker timeout 5 docker version); then
    echo "beds: no Docker: its daemon does not start here: $(tail -n 1 "$c/log")" >&2
    return
  fi
  cp "$busybox" "$c/image/bin/busybox"
  for applet in $("$busybox" --list); do [ "$applet" = busybox ] || ln -s busybox "$c/image/bin/$applet"; done
  if tar -C "$c/image" -c . | docker import --change 'ENV IMAGE_SAYS=canary' - ebb-bed >"$c/probe.log" 2>&1 &&
    timeout 60 docker run --rm --network none --memory 64m --cpus 1 --pids-limit 64 ebb-bed true >>"$c/probe.log" 2>&1; then
    echo "export EBB_TEST_DOCKER=$DOCKER_HOST" >>"$D/env"
  else
    echo "beds: no Docker: it makes no containers here: $(tail -n 1 "$c/probe.log")" >&2
  fi
}
stop_docker() {
  local c=$D/docker id
  [ -f "$c/pid" ] || return 0
  for id in $(timeout 5 docker -H "unix://$c/sock" ps -aq 2>/dev/null); do timeout 20 docker -H "unix://$c/sock" rm -f "$id" >/dev/null 2>&1 || true; done
  kill "$(cat "$c/pid")" 2>/dev/null || true
  for _ in $(seq 100); do [ -f "$c/pid" ] || break; sleep 0.1; done # dockerd unmounts its file systems
}

stop() {
  local pidfile
  stop_containerd
  stop_docker
  # The monitor last: the others ask it on their way out. The OSD has nothing to keep.
  for pidfile in "$D"/rgw/rgw.pid "$D"/rgw/osd.pid; do
    if [ -f "$pidfile" ]; then kill -9 "$(cat "$pidfile")" 2>/dev/null || true; fi
  done
  for pidfile in "$D"/rgw/mon.pid "$D"/vault/pid "$D"/smtp/pid "$D"/sshd/pid "$D"/sentinel/s*/pid "$D"/sentinel/*/pid "$D"/cluster/*/pid "$D"/redis/pid; do
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
  rgw
  mail
  containerd_bed
  docker_bed
  ;;
esac
