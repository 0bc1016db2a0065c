package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/web/load"
)

// vault is the server under load.
type vault struct {
	load.Target
	root   string // token that creates and looks up
	window time.Duration
	rows   []load.Result
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8200", "host:port")
	token := flag.String("token", "root", "token that creates and looks up")
	window := flag.Duration("window", 4*time.Second, "of one measurement")
	children := flag.String("children", "10 1000", "numbers of children of the parents that are revoked")
	flag.Parse()
	v := &vault{Target: load.Target{URL: &url.URL{Scheme: "http", Host: *addr}}, root: *token, window: *window}
	if err := v.run(context.Background(), strings.Fields(*children)); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func (v *vault) run(ctx context.Context, children []string) error {
	create := v.request(v.root, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"task"}})
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
		lookups[i] = v.request(v.root, "auth/token/lookup", map[string]any{"token": t})
	}
	if err := v.closed(ctx, "token lookup", lookups, `"expire_time":"`); err != nil {
		return err
	}
	for _, text := range children {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := v.revoke(ctx, n); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"rows": v.rows})
}

// closed measures requests that may be repeated and whose answer holds want.
func (v *vault) closed(ctx context.Context, op string, requests [][]byte, want string) error {
	holds := []byte(want)
	for _, n := range []int{1, 16, 64} {
		undo := load.Quiet()
		r, err := load.Run(ctx, v.Target, load.Job{
			Op: op, Clients: n, WarmUp: v.window / 4, Window: v.window, Requests: requests, Repeat: true,
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
	b, _ := json.Marshal(body) // maps of texts
	return v.Build("/v1/"+path, "application/json", b, load.Header{Name: "X-Vault-Token", Value: token})
}
