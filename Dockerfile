# syntax=docker/dockerfile:1

FROM golang:1.26.10 AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags="-s -w" -o /out/ebb ./cmd/ebb
# The data directory must belong to the user of the final image and to nobody else: it holds keys.
RUN mkdir -p /out/data && chmod 0700 /out/data

# Nothing but the binary and the roots of TLS: no shell, no package manager. Off loopback ebb demands TLS: set EBB_LISTEN,
# EBB_TLS_CERT and EBB_TLS_KEY, as docker-compose.yml does.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ebb /ebb
COPY --from=build --chown=65532:65532 /out/data /var/lib/ebb
USER 65532:65532
ENV EBB_DATA_DIR=/var/lib/ebb
VOLUME /var/lib/ebb
EXPOSE 8420
# Readiness, which is what `up --wait`, depends_on and proxies ask. Where a failed check restarts the container, as in
# Swarm, use `/ebb health --live`: a restart mends no dependency.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --start-interval=2s --retries=3 CMD ["/ebb", "health"]
ENTRYPOINT ["/ebb"]
CMD ["serve"]
