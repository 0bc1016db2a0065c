// Command load measures a Vault (or one that speaks its API) as `ebb bench` measures ebb: a closed loop at 1, 16 and 64
// clients, one connection each, requests built before the clock runs. It prints rows of the same JSON.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

type row struct {
	Op      string        `json:"op"`
	Clients int           `json:"clients"`
	Ops     int           `json:"ops"`
	Errors  int           `json:"errors"`
	Rate    float64       `json:"per_second"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8200", "host:port")
	token := flag.String("token", "root", "token that creates and looks up")
	window := flag.Duration("window", 4*time.Second, "of one measurement")
	children := flag.String("children", "10 1000", "numbers of children of the parents that are revoked")
	flag.Parse()
	if err := run(*addr, *token, *window, strings.Fields(*children)); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(addr, token string, window time.Duration, children []string) error {
	var rows []row
	create := request(addr, token, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"task"}})
	for _, n := range []int{1, 16, 64} {
		r, err := closed("token create", addr, n, window, [][]byte{create})
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	lookups := make([][]byte, 1000)
	for i := range lookups {
		t, err := newToken(addr, create)
		if err != nil {
			return err
		}
		lookups[i] = request(addr, token, "auth/token/lookup", map[string]any{"token": t})
	}
	for _, n := range []int{1, 16, 64} {
		r, err := closed("token lookup", addr, n, window, lookups)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	for _, text := range children {
		r, err := revoke(addr, token, text)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"rows": rows})
}

// closed sends one request after the other on each of n connections, after a warm-up of a quarter of the window.
func closed(op, addr string, n int, window time.Duration, requests [][]byte) (row, error) {
	type worker struct {
		latencies []time.Duration
		errors    int
	}
	conns := make([]*conn, n)
	for i := range conns {
		var err error
		if conns[i], err = dial(addr); err != nil {
			return row{}, err
		}
		defer conns[i].Close()
	}
	workers := make([]worker, n)
	begin := time.Now().Add(window / 4)
	end := begin.Add(window)
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			w := &workers[i]
			for {
				start := time.Now()
				if !start.Before(end) {
					return
				}
				status, _, err := c.do(requests[rand.IntN(len(requests))])
				if start.Before(begin) {
					continue
				}
				if err != nil || status != http.StatusOK {
					w.errors++
					if err != nil {
						return
					}
					continue
				}
				w.latencies = append(w.latencies, time.Since(start))
			}
		})
	}
	wg.Wait()
	r := row{Op: op, Clients: n}
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.latencies...)
		r.Errors += w.errors
	}
	slices.Sort(all)
	if r.Ops = len(all); r.Ops > 0 {
		r.Rate, r.P50, r.P99 = float64(r.Ops)/window.Seconds(), all[r.Ops/2], all[(r.Ops*99)/100]
	}
	return r, nil
}

// revoke makes a parent with children, revokes the parent, and measures that one call: when it returns all are dead.
func revoke(addr, token, children string) (row, error) {
	var n int
	if _, err := fmt.Sscan(children, &n); err != nil {
		return row{}, err
	}
	parent, err := newToken(addr, request(addr, token, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"root"}, "no_parent": true}))
	if err != nil {
		return row{}, err
	}
	child := request(addr, parent, "auth/token/create", map[string]any{"ttl": "1h", "policies": []string{"default"}})
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			c, err := dial(addr)
			for k := i; k < n && err == nil; k += 16 {
				var status int
				if status, _, err = c.do(child); err == nil && status != http.StatusOK {
					err = fmt.Errorf("a child answered %d", status)
				}
			}
			errs <- err
		})
	}
	wg.Wait()
	for range 16 {
		if err := <-errs; err != nil {
			return row{}, err
		}
	}
	c, err := dial(addr)
	if err != nil {
		return row{}, err
	}
	defer c.Close()
	start := time.Now()
	status, _, err := c.do(request(addr, token, "auth/token/revoke", map[string]any{"token": parent}))
	if err != nil || status >= 300 {
		return row{}, fmt.Errorf("revoke answered %d, %v", status, err)
	}
	took := time.Since(start)
	return row{Op: "revoke a parent of " + children, Clients: 1, Ops: 1, P50: took, P99: took}, nil
}

func newToken(addr string, create []byte) (string, error) {
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, body, err := c.do(create)
	if err != nil {
		return "", err
	}
	var a struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Auth.Token == "" {
		return "", fmt.Errorf("no token in the answer: %.200s", body)
	}
	return a.Auth.Token, nil
}

type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 16<<10)}, nil
}

func (c *conn) do(request []byte) (int, []byte, error) {
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return 0, nil, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func request(addr, token, path string, body map[string]any) []byte {
	b, _ := json.Marshal(body) // maps of texts
	return fmt.Appendf(nil, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nX-Vault-Token: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, addr, token, len(b), b)
}
