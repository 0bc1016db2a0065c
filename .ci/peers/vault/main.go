// Command vaultpeer serves a HashiCorp Vault core on loopback, to be measured beside ebb: integrated storage (raft) of one
// node, token store and audit file device as in a small installation, plain HTTP. It initialises and unseals itself, keeps
// no unseal key and is no server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/armon/go-metrics"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/audit"
	"github.com/hashicorp/vault/helper/metricsutil"
	"github.com/hashicorp/vault/helper/namespace"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/physical/raft"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical"
	"github.com/hashicorp/vault/vault"
)

// none is a build without plugins: the token store is part of the core.
type none struct{}

func (none) Get(string, consts.PluginType) (func() (any, error), bool) { return nil, false }
func (none) Contains(string, consts.PluginType) bool                   { return false }
func (none) Keys(consts.PluginType) []string                           { return nil }
func (none) DeprecationStatus(string, consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Unknown, false
}
func (none) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func main() {
	port := flag.Int("port", 8200, "port on 127.0.0.1; the next one is the cluster's")
	dir := flag.String("dir", "", "new directory for raft and the audit file")
	root := flag.String("root-token", "root", "ID of the root token")
	flag.Parse()
	if err := run(*port, *dir, *root); err != nil {
		fmt.Fprintln(os.Stderr, "vaultpeer:", err)
		os.Exit(1)
	}
}

func run(port int, dir, root string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.MkdirAll(filepath.Join(dir, "raft"), 0o700); err != nil {
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "vault", Level: hclog.Info, Output: os.Stderr})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	cluster := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + 1}
	store, err := raft.NewRaftBackend(map[string]string{
		"path": filepath.Join(dir, "raft"), "node_id": "one", "performance_multiplier": "1",
	}, log.Named("raft"))
	if err != nil {
		return err
	}
	sink := metrics.NewInmemSink(10*time.Second, time.Minute)
	conf := metrics.DefaultConfig("vault")
	conf.EnableHostname = false
	if _, err := metrics.NewGlobal(conf, sink); err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: store, HAPhysical: store.(physical.HABackend), StorageType: "raft", BuiltinRegistry: none{}, Logger: log,
		LogLevel: "info", DisableMlock: true, AuditBackends: map[string]audit.Factory{"file": audit.NewFileBackend},
		RedirectAddr: "http://" + addr, ClusterAddr: "https://" + cluster.String(), DefaultLeaseTTL: time.Hour,
		MaxLeaseTTL: 24 * time.Hour, MetricsHelper: metricsutil.NewMetricsHelper(sink, false),
		MetricSink: metricsutil.NewClusterMetricSink("vaultpeer", sink),
	})
	if err != nil {
		return err
	}
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{
		Core: core, ListenerConfig: &configutil.Listener{Type: "tcp", Address: addr, TLSDisable: true},
	})
	core.SetClusterListenerAddrs([]*net.TCPAddr{cluster})
	core.SetClusterHandler(handler)

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: handler}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	if err := open(namespace.RootContext(ctx), core, root, filepath.Join(dir, "audit.log")); err != nil {
		return err
	}
	fmt.Println("ready http://" + addr)
	select {
	case err = <-done:
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = srv.Shutdown(end)
	}
	return errors.Join(err, core.ShutdownWait())
}

// open initialises and unseals the core, waits until it leads its cluster of one, and sets up what is measured.
func open(ctx context.Context, core *vault.Core, root, auditFile string) error {
	seal := func() *vault.SealConfig { return &vault.SealConfig{SecretShares: 1, SecretThreshold: 1} }
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal(), RecoveryConfig: seal()})
	if err != nil {
		return err
	}
	if ok, err := core.Unseal(made.SecretShares[0]); err != nil || !ok {
		return fmt.Errorf("unseal: %v, %w", ok, err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if active, _, _, err := core.Leader(); err == nil && active {
			break
		}
		if time.Now().After(end) {
			return errors.New("the node did not become active")
		}
	}
	for _, step := range []struct {
		path string
		data map[string]any
	}{
		{"sys/audit/file", map[string]any{"type": "file", "options": map[string]any{"file_path": auditFile}}},
		{"sys/policies/acl/task", map[string]any{"policy": `path "secret/*" { capabilities = ["read"] }`}},
		{"auth/token/create", map[string]any{"id": root, "policies": []string{"root"}, "no_parent": true}},
	} {
		resp, err := core.HandleRequest(ctx, &logical.Request{
			Operation: logical.UpdateOperation, ClientToken: made.RootToken, Path: step.path, Data: step.data,
		})
		if err == nil && resp != nil && resp.IsError() {
			err = resp.Error()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.path, err)
		}
	}
	return nil
}
