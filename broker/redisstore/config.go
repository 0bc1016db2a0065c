package redisstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
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

var _ broker.MarkStore = (*lossGuard)(nil)

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

// servers checks the version and settings of each server, and loads the scripts.
type servers struct {
	logger  *slog.Logger
	client  redis.UniversalClient
	cluster *redis.ClusterClient
	guard   *guard
}

// checkServers checks every master with checkServer.
func (sv *servers) checkServers(ctx context.Context) error { return sv.onMasters(ctx, sv.checkServer) }

// onMasters runs f on every master and joins the errors.
func (sv *servers) onMasters(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	if sv.cluster == nil {
		return f(ctx, sv.client)
	}
	var mu sync.Mutex
	var all []error
	err := sv.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := f(ctx, c); err != nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Errorf("%s: %w", c.Options().Addr, err))
		}
		return nil
	})
	return errors.Join(append(all, wrap(err))...)
}

// checkServer refuses a server that is too old or could evict keys: if a close were
// evicted, a task would be open again. If an ACL forbids a check, it only logs a warning.
func (sv *servers) checkServer(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx).Result()
	if forbidden(err) {
		sv.logger.WarnContext(ctx, "redis: INFO is not allowed for this user; the server's version could not be checked", "error", err)
	} else if err != nil {
		return wrap(err)
	}
	facts := parseInfo(info)
	if v := facts["redis_version"]; v != "" && facts["server_name"] != "valkey" {
		if major, _, _ := strings.Cut(v, "."); atoi(major) < 7 {
			return fmt.Errorf("redis: version %s is too old; use Redis 7 or Valkey 8, or newer", v)
		}
	}
	policy, limit := facts["maxmemory_policy"], facts["maxmemory"]
	if policy == "" {
		conf, err := c.ConfigGet(ctx, "maxmemory*").Result()
		switch {
		case forbidden(err):
			sv.logger.WarnContext(ctx, "redis: neither INFO nor CONFIG GET is allowed for this user; make sure that maxmemory-policy is noeviction", "error", err)
			return nil
		case err != nil:
			return wrap(err)
		}
		policy, limit = conf["maxmemory-policy"], conf["maxmemory"]
	}
	if policy != "noeviction" && limit != "0" {
		return fmt.Errorf("redis: maxmemory-policy is %q with maxmemory %s: %w: %w", policy, limit, mayEvict, broker.ErrEvicting)
	}
	sv.noteEvicted(facts)
	return nil
}

const mayEvict broker.Reason = "the server may evict live state: set maxmemory-policy noeviction"

// noteEvicted compares the number of keys that a server has evicted with the last known
// number. A server that could evict for a moment, between two checks, has lost data.
func (sv *servers) noteEvicted(facts map[string]string) {
	run, n := facts["run_id"], int64(atoi(facts["evicted_keys"]))
	sv.guard.mu.Lock()
	before, known := sv.guard.evicted[run]
	sv.guard.evicted[run] = n
	sv.guard.mu.Unlock()
	if known && n > before {
		sv.guard.distrust()
	}
}

// forbidden reports whether err is the server's refusal of a command by ACL or
// configuration.
func forbidden(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "ERR unknown command") || strings.HasPrefix(text, "ERR command is not allowed")
}

func parseInfo(text string) map[string]string {
	out := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			out[name] = value
		}
	}
	return out
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Clock returns the time of Redis; in a Cluster, of one of its masters.
func (sv *servers) Clock(ctx context.Context) (time.Time, error) {
	at, err := sv.client.Time(ctx).Result()
	return at, wrap(err)
}

// driverLog logs the messages of the Redis client: failed connections, changes of the
// master. Without it the client would write to standard error in its own format.
type driverLog struct{ to *slog.Logger }

// Printf implements the client's Logging interface.
func (l driverLog) Printf(ctx context.Context, format string, v ...any) {
	l.to.WarnContext(ctx, "the Redis client reports", "text", fmt.Sprintf(format, v...))
}

// metrics of one Store. Without a Registerer they are not exported.
type metrics struct {
	errors, lost, misses prometheus.Counter

	registerer prometheus.Registerer
	registered []prometheus.Collector
}

func newMetrics(r prometheus.Registerer, client redis.UniversalClient) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ebb", Subsystem: "redis", Name: name, Help: help})
	}
	m := metrics{
		errors:     counter("errors_total", "Calls that Redis did not answer or refused."),
		lost:       counter("losses_total", "Times this process noticed that Redis lost data."),
		misses:     counter("task_cache_misses_total", "Tasks that were not in the cache and were read completely."),
		registerer: r,
	}
	if r == nil {
		return m, nil
	}
	pool := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "ebb", Subsystem: "redis", Name: "connections", Help: "Open connections to Redis.",
	}, func() float64 { return float64(client.PoolStats().TotalConns) })
	for _, c := range []prometheus.Collector{m.errors, m.lost, m.misses, pool} {
		if err := r.Register(c); err != nil {
			m.unregister()
			return m, fmt.Errorf("redis: metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

func (m metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}
