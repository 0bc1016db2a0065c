package vaultbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Config configures Run. All fields are required.
type Config struct {
	Address  string // host:port
	Token    string // that creates and looks up
	Window   time.Duration
	Children []int // numbers of children of the tokens that are revoked
}

// Report is the whole report, in the format of ebb-bench.
type Report struct {
	Rows []load.Result `json:"rows"`
}

// vault is the server under load.
type vault struct {
	load.Target
	Config
	rows []load.Result
}

// Run runs all measurements.
func Run(ctx context.Context, c Config) (Report, error) {
	v := &vault{Target: load.Target{URL: &url.URL{Scheme: "http", Host: c.Address}}, Config: c}
	err := v.run(ctx)
	return Report{v.rows}, err
}

func (v *vault) run(ctx context.Context) error {
	create := v.request(v.Token, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"task"}})
	if err := v.closed(ctx, "token create", [][]byte{create}, `"client_token":"`); err != nil {
		return err
	}
	c, err := v.Dial(ctx, time.Minute)
	if err != nil {
		return err
	}
	defer c.Close()
	lookups := make([][]byte, 1000)
	for i := range lookups {
		t, err := newToken(c, create)
		if err != nil {
			return err
		}
		lookups[i] = v.request(v.Token, "auth/token/lookup", map[string]any{"token": t})
	}
	if err := v.closed(ctx, "token lookup", lookups, `"expire_time":"`); err != nil {
		return err
	}
	for _, n := range v.Children {
		if err := v.revoke(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// closed measures requests that may be repeated and whose response contains
// want.
func (v *vault) closed(ctx context.Context, op string, requests [][]byte, want string) error {
	holds := []byte(want)
	for _, n := range []int{1, 16, 64} {
		undo := load.Quiet()
		r, err := load.Run(ctx, v.Target, load.Job{
			Op: op, Clients: n, WarmUp: v.Window / 4, Window: v.Window, Requests: requests, Repeat: true,
			Check: func(_, status int, body []byte) error {
				if status != http.StatusOK || !bytes.Contains(body, holds) {
					return fmt.Errorf("status %d: %.200s", status, body)
				}
				return nil
			},
		})
		undo()
		if err != nil {
			return err
		}
		v.rows = append(v.rows, r)
	}
	return nil
}

// newToken creates one token.
func newToken(c *load.Conn, create []byte) (string, error) {
	status, body, err := c.Do(create)
	if err != nil {
		return "", err
	}
	var a struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK || a.Auth.Token == "" {
		return "", errors.Join(fmt.Errorf("status %d and no token in the answer: %.200s", status, body), err)
	}
	return a.Auth.Token, nil
}

func (v *vault) request(token, path string, body map[string]any) []byte {
	b, _ := json.Marshal(body) // maps of strings
	return v.Build("/v1/"+path, "application/json", b, load.Header{Name: "X-Vault-Token", Value: token})
}
