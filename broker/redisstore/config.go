package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Config describes how Redis is reached. Only Addrs is required.
type Config struct {
	Addrs            []string      // host:port; with MasterName, of Sentinels; several without MasterName are nodes of a Cluster
	MasterName       string        // name of the master that the Sentinels watch
	Cluster          bool          // Addrs holds the one configuration endpoint of a Cluster
	Username         string        // ACL user; default "default"
	Password         secret.Secret // of that user
	SentinelUsername string        // ACL user at the Sentinels
	SentinelPassword secret.Secret // of that user
	TLS              *tls.Config   // nil = plaintext
	DB               int           // not in a Cluster
	Prefix           string        // of every key; default "ebb"
	PoolSize         int           // connections to each node; default 32
	Timeout          time.Duration // of dialling and of each reply; default 2 s
	WaitReplicas     int           // replicas that must confirm a close or a revocation before it is acknowledged; default 0
	CacheSize        int           // tasks whose data is kept decoded; default 4096

	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default discards
	Registerer prometheus.Registerer // default none
}

// withDefaults checks c and fills in defaults.
func (c Config) withDefaults() (Config, error) {
	if len(c.Addrs) == 0 {
		return c, errors.New("redis: no address; set at least one host:port")
	}
	if c.clustered() && (c.DB != 0 || c.MasterName != "") {
		return c, errors.New("redis: a Cluster has neither databases nor a Sentinel master; leave DB and MasterName out")
	}
	if c.WaitReplicas < 0 {
		return c, errors.New("redis: WaitReplicas must not be negative")
	}
	if c.Prefix == "" {
		c.Prefix = "ebb"
	}
	if c.PoolSize <= 0 {
		c.PoolSize = 32
	}
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Second
	}
	if c.CacheSize <= 0 {
		c.CacheSize = 4096
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) clustered() bool { return c.Cluster || (len(c.Addrs) > 1 && c.MasterName == "") }

// Store is a broker.LiveStore on Redis. Make it with New.
type Store struct {
	client redis.UniversalClient
	tail   *tail
	m      metrics

	*commands
	*lossGuard
	*gateway
	*taskKeys
	*leaseKeys
	*feedStream
	*servers
}

var _ broker.LiveStore = (*Store)(nil)

// New connects and checks that the server is new enough and evicts no keys. An
// unreachable server is an error. Check fails with ErrLost until some process has called
// Mark.
func New(ctx context.Context, c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	redis.SetLogger(driverLog{c.Logger}) // it has a single logger for the whole process
	s := &Store{
		commands: new(commands), lossGuard: new(lossGuard), gateway: new(gateway), taskKeys: new(taskKeys),
		leaseKeys: new(leaseKeys), feedStream: new(feedStream), servers: new(servers),
	}
	client, cluster := c.connect()
	s.client = client
	if s.m, err = newMetrics(c.Registerer, client); err == nil {
		err = s.wire(c, client, cluster)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	if err = s.checkServers(ctx); err == nil {
		err = s.onMasters(ctx, s.loadScripts)
	}
	if err != nil {
		_ = s.client.Close()
		return nil, err
	}
	return s, nil
}

// wire gives each embedded type its dependencies.
func (s *Store) wire(c Config, client redis.UniversalClient, cluster *redis.ClusterClient) error {
	cache, err := lru.New[recordKey, *record](c.CacheSize)
	if err != nil {
		return fmt.Errorf("redis: cache: %w", err)
	}
	owners, err := lru.New[string, *owner](c.CacheSize)
	if err != nil {
		return fmt.Errorf("redis: cache: %w", err)
	}
	k, guard := keys{c.Prefix}, newGuard(cluster != nil, "p:"+rand.Text()[:13])
	s.tail = newTail(s.feedStream)
	*s.commands = commands{
		logger: c.Logger, clock: c.Now, timeout: c.Timeout, replicas: c.WaitReplicas,
		batcher: &batcher{limit: c.Timeout, exec: func(ctx context.Context, cmds []redis.Cmder) { s.pipeline(ctx, client, cmds) }},
		client:  client, cluster: cluster, guard: guard, keys: k, m: s.m, loss: s.lossGuard,
	}
	*s.lossGuard = lossGuard{cluster: cluster, guard: guard, keys: k, m: s.m, cmds: s.commands, servers: s.servers}
	*s.gateway = gateway{cache: cache, cluster: cluster, keys: k, m: s.m, owners: owners, cmds: s.commands, loss: s.lossGuard}
	*s.taskKeys = taskKeys{keys: k, cmds: s.commands, feed: s.feedStream, gate: s.gateway, loss: s.lossGuard}
	*s.leaseKeys = leaseKeys{cluster: cluster, keys: k, cmds: s.commands, feed: s.feedStream, gate: s.gateway, loss: s.lossGuard}
	*s.feedStream = feedStream{client: client, keys: k, tail: s.tail, cmds: s.commands, gate: s.gateway}
	*s.servers = servers{logger: c.Logger, client: client, cluster: cluster, guard: guard}
	return nil
}

// connect makes the client. Retries are off: a failed call returns its error at once, and
// the broker's callers repeat it. A Cluster client follows redirections and may send a
// call twice; calls for which this matters carry a nonce.
func (c Config) connect() (redis.UniversalClient, *redis.ClusterClient) {
	o := &redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, DB: c.DB, IsClusterMode: c.Cluster,
		Username: c.Username, Password: c.Password.Reveal(),
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword.Reveal(),
		TLSConfig: c.TLS, Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, MaxRedirects: 3, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, PoolTimeout: c.Timeout,
		PoolSize: c.PoolSize, PipelinePoolSize: -1, ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
		FailingTimeoutSeconds: 1, MinRetryBackoff: 8 * time.Millisecond, MaxRetryBackoff: 64 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if !c.clustered() {
		return redis.NewUniversalClient(o), nil
	}
	co := o.Cluster()
	// The default of a minute would keep a killed master in use for that long.
	co.ClusterStateReloadInterval = time.Second
	cc := redis.NewClusterClient(co)
	return cc, cc
}

// Close ends every waiting Follow. Every later call fails.
func (s *Store) Close() error {
	s.m.unregister()
	err := s.client.Close()
	s.tail.wake()
	if err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}
