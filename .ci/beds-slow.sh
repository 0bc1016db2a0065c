#!/usr/bin/env bash
# The counterpart that takes long to build: a real kube-apiserver with etcd, private and on loopback.
#
#   .ci/beds-slow.sh build       build kube-apiserver from the Go module proxy (7 minutes of processor time) and keep it by version
#   .ci/beds-slow.sh start DIR   start it with its state in DIR; DIR/env then holds EBB_TEST_KUBE: . DIR/env && go test ./broker/provider/kubernetes
#   .ci/beds-slow.sh try DIR     start if it was built on this machine before; else say "not built here" and succeed
#   .ci/beds-slow.sh stop DIR    stop it and remove DIR
#
# Needs Go, openssl, curl and etcd (Debian: etcd-server).
set -euo pipefail

die() { echo "beds-slow: $*" >&2; exit 1; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ebb-beds
version=$(sed -n 's|^require k8s.io/kubernetes v||p' "$here/kubebed/go.mod")
bin=$cache/kube-apiserver-$version-$(cat "$here/kubebed/go.mod" "$here/kubebed/go.sum" | sha256sum | cut -c1-16)

build() {
  [ -x "$bin" ] && return
  echo "beds-slow: building kube-apiserver $version, 7 minutes of processor time" >&2
  mkdir -p "$cache"
  local at=k8s.io/component-base/version
  # Without the version it takes itself for 0.0 and refuses its own API groups.
  (cd "$here/kubebed" && CGO_ENABLED=0 nice -n 15 go build -mod=readonly -trimpath -buildvcs=false \
    -ldflags "-s -w -X $at.gitVersion=v$version -X $at.gitMajor=${version%%.*} -X $at.gitMinor=$(cut -d. -f2 <<<"$version")" \
    -o "$bin.new" k8s.io/kubernetes/cmd/kube-apiserver) && mv "$bin.new" "$bin"
}

case "${1:-}" in
build) build; exit ;;
start | try | stop) [ -n "${2:-}" ] || die "usage: $0 $1 DIR" ;;
*) die "usage: $0 build | start DIR | try DIR | stop DIR" ;;
esac
verb=$1

stop() {
  local name i
  for name in api etcd; do
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

start() {
  local client peer api end token
  command -v etcd >/dev/null || die "etcd is missing: install etcd-server"
  client=$(port 23790) peer=$(port 24380) api=$(port 26443)
  umask 077
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
  echo "export EBB_TEST_KUBE=$D" >"$D/env"
}

mkdir -p "$2"
D=$(cd "$2" && pwd)
case $verb in
stop) stop ;;
start) build && start ;;
try)
  if [ ! -x "$bin" ]; then
    rm -rf "$D"
    echo "kube-apiserver $version: not built here (.ci/beds-slow.sh build), its tests do not run"
  elif ! command -v etcd >/dev/null; then
    rm -rf "$D"
    echo "kube-apiserver $version: etcd is not installed here, its tests do not run"
  else
    start
    echo "kube-apiserver $version: started, its tests run"
  fi
  ;;
esac
