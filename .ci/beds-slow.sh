#!/usr/bin/env bash
# The counterparts that take long to build, private and on loopback: "kube", a real kube-apiserver with etcd, "minio", a real MinIO, and "spire", a real
# SPIRE server with an agent.
#
#   .ci/beds-slow.sh build [BED...]       build from the Go module proxy (kube 7 minutes of processor time, minio 4, spire 10) and keep it by version
#   .ci/beds-slow.sh start DIR [BED...]   start with the state in DIR; DIR/env then holds EBB_TEST_KUBE, EBB_TEST_MINIO and EBB_TEST_SPIRE
#   .ci/beds-slow.sh try DIR [BED...]     start what was built on this machine before; else say "not built here" and succeed
#   .ci/beds-slow.sh stop DIR             stop all and remove DIR
#
# Without a BED it is all. kube needs openssl and etcd (Debian: etcd-server), spire a C compiler, all need Go and curl.
set -euo pipefail
shopt -s nullglob

die() { echo "beds-slow: $*" >&2; exit 1; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ebb-beds

# module BED is the nested module that pins it, version BED what that pins, and binary BED where what was built is kept.
module() {
  case $1 in
  kube) echo "$here/kubebed" ;;
  minio) echo "$here/../broker/provider/aws/testdata/minio" ;;
  spire) echo "$here/spirebed" ;;
  esac
}
version() {
  case $1 in
  kube) sed -n 's|^require k8s.io/kubernetes v||p' "$(module kube)/go.mod" ;;
  minio) sed -n 's|^.*github.com/minio/minio v[0-9.]*-||p' "$(module minio)/go.mod" ;; # time and commit: its tags are no versions of Go's
  spire) sed -n 's|^require github.com/spiffe/spire v||p' "$(module spire)/go.mod" ;;
  esac
}
binary() {
  local name=$1 at
  at=$(module "$1")
  case $1 in kube) name=kube-apiserver ;; spire) name=spire-server ;; esac
  echo "$cache/$name-$(version "$1")-$(cat "$at"/go.mod "$at"/go.sum "$at"/*.go | sha256sum | cut -c1-16)"
}

build() {
  local bin v at=k8s.io/component-base/version from=. flags='-s -w'
  bin=$(binary "$1") v=$(version "$1")
  [ -x "$bin" ] && return
  echo "beds-slow: building $1 $v, minutes of processor time" >&2
  mkdir -p "$cache"
  if [ "$1" = spire ]; then
    build_spire "$bin"
    return
  fi
  if [ "$1" = kube ]; then
    # Without the version it takes itself for 0.0 and refuses its own API groups.
    from=k8s.io/kubernetes/cmd/kube-apiserver flags+=" -X $at.gitVersion=v$v -X $at.gitMajor=${v%%.*} -X $at.gitMinor=$(cut -d. -f2 <<<"$v")"
  fi
  (cd "$(module "$1")" && CGO_ENABLED=0 nice -n 15 go build -mod=readonly -trimpath -buildvcs=false -ldflags "$flags" -o "$bin.new" "$from") && mv "$bin.new" "$bin"
}

# build_spire SERVER builds the server and, beside it under its own name, the agent: the server last, because it is what "built" means.
build_spire() {
  local part
  for part in agent server; do
    (cd "$(module spire)" && CGO_ENABLED=1 nice -n 15 go build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' \
      -o "$1.new" "github.com/spiffe/spire/cmd/spire-$part") || return
    mv "$1.new" "${1/spire-server/spire-$part}"
  done
}

verb=${1:-}
case $verb in
build) shift ;;
start | try | stop)
  [ -n "${2:-}" ] || die "usage: $0 $verb DIR"
  mkdir -p "$2"
  D=$(cd "$2" && pwd)
  shift 2
  ;;
*) die "usage: $0 build | start DIR | try DIR | stop DIR" ;;
esac
beds=("$@")
[ $# -gt 0 ] || beds=(kube minio spire)
for bed in "${beds[@]}"; do
  case $bed in kube | minio | spire) ;; *) die "$bed is none of kube, minio and spire" ;; esac
done

stop() {
  local name i
  for name in api etcd minio agent spire; do
    [ -f "$D/$name.pid" ] || continue
    kill "$(cat "$D/$name.pid")" 2>/dev/null || true
    for i in $(seq 50); do kill -0 "$(cat "$D/$name.pid")" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$(cat "$D/$name.pid")" 2>/dev/null || true
  done
  rm -rf "$D"
}

# port gives a port from $1 on that nothing listens on.
port() {
  local p
  for p in $(seq "$1" "$(($1 + 500))"); do
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
  die "no free port from $1"
}

start_kube() {
  local client peer api end token bin
  bin=$(binary kube)
  command -v etcd >/dev/null || die "etcd is missing: install etcd-server"
  client=$(port 23790) peer=$(port 24380) api=$(port 26443)
  openssl genrsa -out "$D/sa.key" 2048 2>/dev/null
  openssl rsa -in "$D/sa.key" -pubout -out "$D/sa.pub" 2>/dev/null
  token=$(openssl rand -hex 24)
  echo "$token" >"$D/admin.token"
  echo "$token,admin,admin,system:masters" >"$D/tokens.csv"
  etcd --data-dir "$D/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer" >"$D/etcd.log" 2>&1 </dev/null &
  echo $! >"$D/etcd.pid"
  "$bin" --etcd-servers="http://127.0.0.1:$client" --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$api" --cert-dir="$D/certs" \
    --service-account-issuer=https://kubernetes.default.svc --api-audiences=https://kubernetes.default.svc \
    --service-account-key-file="$D/sa.pub" --service-account-signing-key-file="$D/sa.key" --token-auth-file="$D/tokens.csv" \
    --authorization-mode=RBAC --disable-admission-plugins=ServiceAccount --service-cluster-ip-range=10.0.0.0/24 \
    --endpoint-reconciler-type=none >"$D/api.log" 2>&1 </dev/null &
  echo $! >"$D/api.pid"
  end=$((SECONDS + 120))
  until [ "$(curl -sk -H "Authorization: Bearer $token" "https://127.0.0.1:$api/readyz" 2>/dev/null)" = ok ]; do
    kill -0 "$(cat "$D/api.pid")" 2>/dev/null && [ $SECONDS -lt $end ] || die "kube-apiserver did not come up; its log is $D/api.log"
    sleep 0.2
  done
  echo "https://127.0.0.1:$api" >"$D/server"
  cp "$D/certs/apiserver.crt" "$D/ca.pem"
  echo "export EBB_TEST_KUBE=$D" >>"$D/env"
}

start_minio() {
  local bin api console end secret
  bin=$(binary minio) api=127.0.0.1:$(port 29000) console=127.0.0.1:$(port 29600)
  secret=$(openssl rand -hex 24)
  mkdir "$D/minio" "$D/minio-certs"
  export MINIO_ROOT_USER=root MINIO_BROWSER=off MINIO_UPDATE=off TZ=UTC
  MINIO_ROOT_PASSWORD=$(openssl rand -hex 24)
  export MINIO_ROOT_PASSWORD
  # It looks for certificates in the home directory otherwise.
  "$bin" server --quiet --certs-dir "$D/minio-certs" --address "$api" --console-address "$console" "$D/minio" >"$D/minio.log" 2>&1 </dev/null &
  echo $! >"$D/minio.pid"
  end=$((SECONDS + 120))
  until curl -sf -o /dev/null "http://$api/minio/health/ready"; do
    kill -0 "$(cat "$D/minio.pid")" 2>/dev/null && [ $SECONDS -lt $end ] || die "MinIO did not come up; its log is $D/minio.log"
    sleep 0.2
  done
  BED_KEY=ebb BED_SECRET=$secret "$bin" user "$api"
  echo "export EBB_TEST_MINIO=http://ebb:$secret@$api" >>"$D/env"
}

start_spire() {
  local server agent api endpoint end token
  server=$(binary spire)
  agent=${server/spire-server/spire-agent} api=$(port 28081) endpoint=$(port 28443)
  mkdir "$D/spire" "$D/spire/server" "$D/spire/agent"
  cat >"$D/spire/server.conf" <<CONF
server {
  bind_address = "127.0.0.1"
  bind_port = "$api"
  socket_path = "$D/spire/server.sock"
  trust_domain = "sbx.test"
  data_dir = "$D/spire/server"
  default_x509_svid_ttl = "10m"
  default_jwt_svid_ttl = "5m"
  federation { bundle_endpoint { address = "127.0.0.1" port = $endpoint } }
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3" connection_string = "$D/spire/server/db.sqlite3" } }
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
}
CONF
  cat >"$D/spire/agent.conf" <<CONF
agent {
  data_dir = "$D/spire/agent"
  server_address = "127.0.0.1"
  server_port = "$api"
  socket_path = "$D/spire/agent.sock"
  trust_domain = "sbx.test"
  insecure_bootstrap = true
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
CONF
  "$server" run -config "$D/spire/server.conf" >"$D/spire/server.log" 2>&1 </dev/null &
  echo $! >"$D/spire.pid"
  end=$((SECONDS + 120))
  until "$server" healthcheck -socketPath "$D/spire/server.sock" >/dev/null 2>&1; do
    kill -0 "$(cat "$D/spire.pid")" 2>/dev/null && [ $SECONDS -lt $end ] || die "the SPIRE server did not come up; its log is $D/spire/server.log"
    sleep 0.2
  done
  token=$("$server" token generate -socketPath "$D/spire/server.sock" -spiffeID spiffe://sbx.test/node -ttl 600 | sed -n 's/^Token: //p')
  "$server" entry create -socketPath "$D/spire/server.sock" -parentID spiffe://sbx.test/node -spiffeID spiffe://sbx.test/sandbox/42 -selector "unix:uid:$(id -u)" >/dev/null
  "$agent" run -config "$D/spire/agent.conf" -joinToken "$token" >"$D/spire/agent.log" 2>&1 </dev/null &
  echo $! >"$D/agent.pid"
  # Healthy is not yet synchronised: the entry must have arrived.
  until "$agent" api fetch x509 -socketPath "$D/spire/agent.sock" >/dev/null 2>&1; do
    kill -0 "$(cat "$D/agent.pid")" 2>/dev/null && [ $SECONDS -lt $end ] || die "the SPIRE agent gave no SVID; its log is $D/spire/agent.log"
    sleep 0.5
  done
  "$server" bundle show -socketPath "$D/spire/server.sock" -format spiffe >"$D/spire/bundle.json"
  echo "https://127.0.0.1:$endpoint" >"$D/spire/endpoint"
  echo "export EBB_TEST_SPIRE=$D/spire" >>"$D/env"
}

umask 077
case $verb in
build) for bed in "${beds[@]}"; do build "$bed"; done ;;
stop) stop ;;
start) for bed in "${beds[@]}"; do build "$bed" && "start_$bed"; done ;;
try)
  for bed in "${beds[@]}"; do
    if [ ! -x "$(binary "$bed")" ]; then
      echo "$bed $(version "$bed"): not built here (.ci/beds-slow.sh build $bed), its tests do not run"
    elif [ "$bed" = kube ] && ! command -v etcd >/dev/null; then
      echo "kube $(version kube): etcd is not installed here, its tests do not run"
    else
      "start_$bed"
      echo "$bed $(version "$bed"): started, its tests run"
    fi
  done
  [ -f "$D/env" ] || rm -rf "$D"
  ;;
esac
