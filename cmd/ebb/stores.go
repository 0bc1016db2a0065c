package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/attest/options"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/seal"
	wrappers "github.com/ebb-broker/ebb/broker/seal/all"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// sqliteFile is the path of the SQLite database.
func sqliteFile(c config.Config) string { return filepath.Join(c.DataDir, databaseFile) }

// databaseConfig returns the address of the database, including the password.
func databaseConfig(c config.Config) sqlstore.Config {
	if c.Database == "" {
		// The data directory is locked for one process (openData).
		return sqlstore.Config{URL: "sqlite://" + sqliteFile(c), Exclusive: true}
	}
	u, err := url.Parse(c.Database)
	if err != nil || c.DatabasePassword().Empty() {
		return sqlstore.Config{URL: c.Database}
	}
	u.User = url.UserPassword(u.User.Username(), c.DatabasePassword().Reveal())
	return sqlstore.Config{URL: u.String()}
}

func (n *node) openDatabase(ctx context.Context, c config.Config, reg prometheus.Registerer) (*sqlstore.Store, error) {
	sc := databaseConfig(c)
	sc.Logger, sc.Registerer, sc.Now = n.log, reg, n.now
	s, err := sqlstore.Open(ctx, sc)
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, s.Close)
	return s, nil
}

// openKeys opens the key directory. The database knows which keys were used
// before.
func (n *node) openKeys(ctx context.Context, c config.Config) error {
	kc := keysConfig(c)
	kc.Log, kc.Now = n.log, n.now
	var err error
	if kc.Used, err = durability.UsedKeys(ctx, n.store); err != nil {
		return err
	}
	n.dir, err = keys.Open(kc)
	return err
}

func (n *node) openLiveStore(ctx context.Context, c config.Config, reg prometheus.Registerer) (broker.LiveStore, error) {
	if c.Embedded() {
		if c.Database != "" {
			n.log.WarnContext(ctx, "live state is kept in this process: run only one ebb, or set redis.addrs")
		}
		l := memstore.New(memstore.Config{Now: n.now})
		n.closers = append(n.closers, l.Close)
		return l, nil
	}
	rc, err := liveStoreConfig(c)
	if err != nil {
		return nil, err
	}
	rc.Logger, rc.Registerer, rc.Now = n.log, reg, n.now
	l, err := redisstore.New(ctx, rc)
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, l.Close)
	return l, nil
}

// liveStoreConfig returns the configuration of Redis, including passwords.
func liveStoreConfig(c config.Config) (redisstore.Config, error) {
	r := c.Redis
	rc := redisstore.Config{
		Addrs: r.Addrs, MasterName: r.MasterName, Cluster: r.Cluster, Username: r.Username, Password: r.Password(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword(), Prefix: r.Prefix, WaitReplicas: r.WaitReplicas,
	}
	if !r.TLS {
		return rc, nil
	}
	rc.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile == "" {
		return rc, nil
	}
	pem, err := os.ReadFile(r.CAFile)
	if err != nil {
		return rc, usage("read redis.ca_file: "+err.Error(), "name a readable PEM file")
	}
	rc.TLS.RootCAs = x509.NewCertPool()
	if !rc.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return rc, usage("redis.ca_file contains no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	return rc, nil
}

// The default sealing key.
const (
	sealingFileKind = "file"
	sealingFile     = "sealing.pem"
)

// openSealer creates the ring of sealing keys and the secret store whose values
// it encrypts. Without a provider of another kind than jwt there is nothing to
// encrypt, and it returns nil.
func (n *node) openSealer(ctx context.Context, c config.Config, store *sqlstore.Store) (broker.Sealer, error) {
	if !slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.Kind != "jwt" }) {
		return nil, nil //nolint:nilnil // not needed; the broker returns an error if it is
	}
	w, err := n.wrapper(c, c.Sealing.Kind, c.Sealing.Config)
	if err != nil {
		return nil, err
	}
	if len(c.Sealing.Previous) > 0 {
		var p struct {
			Kind   string          `json:"kind"`
			Config json.RawMessage `json:"config"`
		}
		if err := options.Decode(c.Sealing.Previous, &p); err != nil {
			return nil, fail("sealing.previous: "+err.Error(), "write it as {kind: file, config: {...}}")
		}
		from, err := n.wrapper(c, p.Kind, p.Config)
		if err != nil {
			return nil, err
		}
		w = seal.Moved(w, from)
	}
	if n.sealing, err = seal.New(ctx, seal.Config{Wrapper: w, Store: store, Log: n.log, Now: n.now}); err != nil {
		return nil, err
	}
	n.secrets = secretstore.New(store, n.sealing, n.now)
	return n.sealing, nil
}

// wrapper opens the wrapping key of a kind.
func (n *node) wrapper(c config.Config, kind string, raw json.RawMessage) (seal.Wrapper, error) {
	if len(raw) == 0 && kind == sealingFileKind {
		var err error
		if raw, err = json.Marshal(map[string]string{"path": filepath.Join(c.DataDir, sealingFile)}); err != nil {
			return nil, err
		}
	}
	w, err := wrappers.New(kind, raw, cmp.Or(c.Instance, broker.InstanceOf(n.url)))
	if err != nil {
		return nil, fail(err.Error(), "restore the key, or correct sealing; kinds are "+strings.Join(wrappers.Kinds(), ", "))
	}
	return w, nil
}

const (
	databaseFile = "ebb.db"
	pendingFile  = "pending-ends" // revocations that the database has not recorded yet
	lockFile     = "lock"
)

// whileStopped opens the database and the signing keys of the configuration,
// calls work, and closes them. It fails if another process uses the data
// directory.
func whileStopped(ctx context.Context, c *cli, work func(*node, config.Config) error) (err error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	log, flush := newLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
	defer flush()
	n := &node{log: log, now: time.Now}
	defer func() {
		if cerr := n.close(); err == nil {
			err = cerr
		}
	}()
	if err := n.openData(cfg); err != nil {
		return err
	}
	if n.store, err = n.openDatabase(ctx, cfg, prometheus.NewRegistry()); err != nil {
		return err
	}
	if err := n.openKeys(ctx, cfg); err != nil {
		return err
	}
	return work(n, cfg)
}

// openData creates or checks the data directory and locks it for this process.
// It refuses an incomplete directory and changes nothing in it, because an
// operator has to examine it.
func (n *node) openData(c config.Config) error {
	if err := privateDir(c.DataDir); err != nil {
		return err
	}
	if c.Database == "" {
		if err := wholeData(c); err != nil {
			return err
		}
	}
	unlock, err := lock(filepath.Join(c.DataDir, lockFile))
	if err != nil {
		return err
	}
	n.closers = append(n.closers, unlock)
	// A URL in the directory belongs to an earlier process: the port may be
	// closed, or used by another program.
	if err := os.Remove(filepath.Join(c.DataDir, urlFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail("write to the data directory: "+err.Error(), "check its owner and mode")
	}
	return nil
}

// privateDir creates path with mode 0700, or checks that only its owner can
// enter it.
func privateDir(path string) error {
	err := os.MkdirAll(path, 0o700)
	if err != nil {
		return fail("create the data directory: "+err.Error(), "set data_dir (EBB_DATA_DIR) to a place that this user can write to")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail("read the data directory: "+err.Error(), "check its owner and mode")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return usage(fmt.Sprintf("the data directory %s has mode %04o: other users can enter it, and it contains keys", path, mode), "chmod 700 "+path)
	}
	return nil
}

// wholeData refuses a database whose keys are missing: with new keys every
// token and every checkpoint of the audit log would silently become
// unverifiable.
func wholeData(c config.Config) error {
	db := filepath.Join(c.DataDir, databaseFile)
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(c.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		return usage("the data directory is incomplete: "+db+" exists, but its keys in "+c.Signing.KeysDir+" do not",
			"restore the keys from the backup, or move "+db+" away to start with an empty database")
	}
	return nil
}

// lock makes this process the only user of the directory. The embedded live
// state exists in one process alone, and two processes would not see each
// other's revocations.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fail("lock the data directory: "+err.Error(), "check its owner and mode")
	}
	for range 20 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond) // runningURL of another process may hold the lock for a moment
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fail("another ebb uses the data directory "+filepath.Dir(path), "stop it, or give this one its own data_dir (EBB_DATA_DIR)"), f.Close())
	case err != nil:
		return nil, errors.Join(fail("lock the data directory: "+err.Error(), "put it on a local file system"), f.Close())
	}
	return f.Close, nil
}
