package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// Bounds of the difference between clocks. Proofs may be up to 60 s off,
// assertions up to 30 s.
const (
	clockWarning = 5 * time.Second
	clockFailure = 25 * time.Second
)

func (d *doctor) store(ctx context.Context) {
	if d.cfg.Database == "" {
		if _, err := os.Stat(sqliteFile(d.cfg)); errors.Is(err, fs.ErrNotExist) {
			d.warn("database", "there is no SQLite file yet", "`ebb serve` creates it")
			return
		}
	}
	state, err := sqlstore.MigrationStatus(ctx, databaseConfig(d.cfg))
	switch {
	case err != nil:
		d.failed("database", err, "check database, its password, and that the server can be reached")
	case len(state.Pending) > 0:
		d.warn("database", fmt.Sprintf("%d migration(s) are pending", len(state.Pending)), "`ebb migrate`, or restart ebb")
	default:
		d.ok("database", "reachable, schema %d", len(state.Applied))
	}
	if d.cfg.Database != "" {
		d.apart("database clock", "the database", func() (time.Time, error) { return sqlstore.ServerClock(ctx, databaseConfig(d.cfg)) })
	}
}

// apart compares another clock with that of this machine. ebb decides nothing
// by those clocks. But people compare their times, and if one clock is wrong
// the clocks that ebb uses may be wrong too.
func (d *doctor) apart(check, whose string, read func() (time.Time, error)) {
	before := time.Now()
	at, err := read()
	if err != nil {
		d.failed(check, err, "check that the server can be reached")
		return
	}
	middle := before.Add(time.Since(before) / 2)
	if off := middle.Sub(at).Abs().Round(time.Millisecond); off > clockWarning {
		d.warn(check, fmt.Sprintf("this machine and %s are %s apart", whose, off), "set both clocks by NTP")
		return
	}
	d.ok(check, "agrees with this machine's")
}

func (d *doctor) liveStore(ctx context.Context) {
	if d.cfg.Embedded() {
		if d.cfg.Database != "" {
			d.warn("live_store", "live state is kept in ebb's process, but the database can be shared by several", "run only one ebb, or set redis.addrs")
			return
		}
		d.ok("live_store", "live state is kept in ebb's process")
		return
	}
	rc, err := liveStoreConfig(d.cfg)
	if err != nil {
		d.failed("live_store", err, "correct the redis keys of the configuration")
		return
	}
	l, err := redisstore.New(ctx, rc)
	if err != nil {
		d.failed("live_store", err, "check redis.addrs, the password, and that the server can be reached")
		return
	}
	defer l.Close()
	d.apart("live store clock", "Redis", func() (time.Time, error) { return l.Clock(ctx) })
	if err := l.Check(ctx); errors.Is(err, broker.ErrLost) {
		d.warn("live_store", "the live state in Redis is incomplete", "ebb rebuilds it when it starts; if ebb is running, see its log")
		return
	} else if err != nil {
		d.failed("live_store", err, "check Redis")
		return
	}
	d.ok("live_store", "Redis answers, its version is supported, and evicts nothing")
}

// server checks the running ebb over HTTP.
func (d *doctor) server(ctx context.Context) {
	d.url = d.c.url
	if d.url == "" {
		d.url = d.cfg.PublicURL
	}
	if d.url == "" {
		peer, err := d.c.peer()
		if err != nil {
			d.fail("server", "no ebb of this user is running on this machine", "start `ebb serve`, or name one with --url")
			return
		}
		d.url = peer.Issuer
	}
	resp, body, err := d.get(ctx, "/readyz")
	if err != nil {
		d.all = append(d.all, unreachable(d.url, err))
		return
	}
	d.ok("server", "answers at %s", d.url)
	d.clock(resp)
	d.dependencies(resp, body)
	d.metadata(ctx)
	d.entrance(ctx)
}

func (d *doctor) get(ctx context.Context, path string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, body, err
}

// clock compares the server's Date header with the clock of this machine.
func (d *doctor) clock(resp *http.Response) {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		d.warn("clock", "the server sends no Date", "check whether a proxy removes the header")
		return
	}
	// Date has whole seconds.
	apart := time.Since(at).Abs().Truncate(time.Second)
	switch {
	case apart > clockFailure:
		d.fail("clock", fmt.Sprintf("this machine and the server are %s apart: proofs and assertions are refused", apart), "set both clocks by NTP")
	case apart > clockWarning:
		d.warn("clock", fmt.Sprintf("this machine and the server are %s apart", apart), "set both clocks by NTP")
	default:
		d.ok("clock", "agrees with the server's")
	}
}

func (d *doctor) dependencies(resp *http.Response, body []byte) {
	var ready readyAnswer
	if err := json.Unmarshal(body, &ready); err != nil {
		d.fail("readiness", "the response is not from an ebb", "check --url")
		return
	}
	for _, x := range ready.Dependencies {
		if x.State == "warning" {
			d.warn("readiness", x.Name+": "+x.Warning, "see the log of the server")
		}
	}
	down := ready.down()
	if len(down) > 0 || resp.StatusCode != http.StatusOK {
		d.fail("readiness", "down: "+strings.Join(down, "; "), "see the log of the server")
		return
	}
	d.ok("readiness", "%d dependencies are up", len(ready.Dependencies))
}

func (d *doctor) metadata(ctx context.Context) {
	resp, body, err := d.get(ctx, "/.well-known/openid-configuration")
	var m struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &m) != nil {
		d.fail("metadata", "the server's metadata cannot be read", "check whether a proxy blocks /.well-known/")
		return
	}
	if m.Issuer != d.url {
		d.fail("metadata", "the server's issuer is "+m.Issuer+", not "+d.url, "use that URL, or set public_url to what clients use")
		return
	}
	resp, body, err = d.get(ctx, strings.TrimPrefix(m.JWKS, d.url))
	if err != nil || resp.StatusCode != http.StatusOK {
		d.fail("metadata", "the key set "+m.JWKS+" cannot be read", "check whether a proxy blocks it")
		return
	}
	set, err := jose.ParseJWKS(body)
	if err != nil || len(set.Keys()) == 0 {
		d.fail("metadata", "the key set holds no usable key", "see the log of the server")
		return
	}
	d.ok("metadata", "issuer %s, %d key(s) published", m.Issuer, len(set.Keys()))
}

// entrance tries the local key, which the other commands use.
func (d *doctor) entrance(ctx context.Context) {
	saved := d.c.url
	d.c.url = d.url
	defer func() { d.c.url = saved }()
	o, err := d.c.operator(operatorKey)
	if err != nil {
		if !d.configuredPrincipals() {
			d.warn("local key", explain(err), cmp.Or(nextStep(err, exitUsage), "name a key with --key"))
		}
		return
	}
	_, err = o.Policy.Get(ctx)
	if exitOf(err) == exitUnavailable {
		d.fail("local key", "ebb could not check the key: "+explain(err), "fix the failed `readiness` check first, then run the command again")
		return
	}
	if err != nil {
		if !d.configuredPrincipals() {
			d.warn("local key", explain(err), "register the key for its principal, or name another with --key")
		}
		return
	}
	d.ok("local key", "ebb accepts it")
}

// configuredPrincipals reports that ebb accepts no local key, because the
// configuration names principals. false: it does not, or the user named a key.
func (d *doctor) configuredPrincipals() bool {
	if d.c.keyFile != "" || len(d.cfg.Principals) == 0 {
		return false
	}
	var operators []string
	for _, p := range d.cfg.Principals {
		if slices.Contains(p.Roles, broker.RoleOperator) {
			operators = append(operators, p.ID)
		}
	}
	const said = "principals is set, so there is no local-operator"
	if len(operators) == 0 {
		d.warn("local key", said+", and no principal has the role operator, which stopping tasks of others and retrying revocations require", "`ebb keys new ops.key --client-id ops >ops.jwk`, and add {id: ops, roles: [operator], keys: [{key_file: ops.jwk}]} to principals")
		return true
	}
	d.warn("local key", said+"; operators are "+strings.Join(operators, ", "), "name the key of one with --key or EBB_KEY_FILE")
	return true
}
