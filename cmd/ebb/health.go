package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/out"
)

// healthTime bounds one health check. /readyz itself gives its dependencies 3 s.
const healthTime = 5 * time.Second

func newHealth(c *cli) *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use: "health", Short: "Exit 0 when the ebb of this machine is ready, 1 when it is not", Args: cobra.NoArgs,
		Long: `Ask /readyz of the ebb that uses the data directory, at the address it listens on,
and exit 1 unless it answers within 5s that it is ready. It needs no key and leaves
no trace in the audit log: a health check of a container. With --live it asks
/livez: use that where a failure restarts ebb, because a restart mends no
dependency.`,
	}
	cmd.Flags().BoolVar(&live, "live", live, "ask whether the process answers (/livez), and nothing about its dependencies")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.loadConfig()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), healthTime)
		defer cancel()
		path := "/readyz"
		if live {
			path = "/livez"
		}
		if err := c.health(ctx, cfg, path); err != nil {
			return err
		}
		c.printf("ok\n")
		return nil
	})
	return cmd
}

// health asks the ebb of the data directory for path and fails unless the answer is 200.
func (c *cli) health(ctx context.Context, cfg config.Config, path string) error {
	at, running := runningURL(cfg.DataDir)
	if !running {
		return fail("no ebb uses the data directory "+cfg.DataDir, "start `ebb serve`, or name the directory with EBB_DATA_DIR")
	}
	u, err := url.Parse(at)
	if err != nil {
		return fail("the address of the running ebb cannot be read: "+err.Error(), "restart `ebb serve`")
	}
	client, err := c.ownClient(cfg)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Scheme+"://"+u.Host+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		f := unreachable(at, err)
		return fail(f.Said, f.Remedy)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fail("the answer of "+path+" broke off: "+err.Error(), "look at the log of ebb")
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var ready readyAnswer
	if json.Unmarshal(body, &ready) != nil || len(ready.down()) == 0 {
		return fail(fmt.Sprintf("%s answered %d", path, resp.StatusCode), "look at the log of ebb")
	}
	return fail("not ready: "+strings.Join(ready.down(), "; "), "the log of ebb says more")
}

// ownClient connects to the address that ebb listens on and not to public_url, where another
// replica may answer. It trusts the certificate that ebb is configured with.
func (c *cli) ownClient(cfg config.Config) (*http.Client, error) {
	tc, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	if cfg.TLS.Cert != "" {
		pem, err := os.ReadFile(cfg.TLS.Cert)
		if err != nil {
			return nil, fail("tls.cert cannot be read: "+err.Error(), "check tls.cert")
		}
		if tc.RootCAs == nil {
			if tc.RootCAs, err = x509.SystemCertPool(); err != nil {
				tc.RootCAs = x509.NewCertPool()
			}
		}
		tc.RootCAs.AppendCertsFromPEM(pem)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fail("listen is not host:port: "+cfg.Listen, "check listen")
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if port != "0" { // a port that the system chose is in the address alone
			addr = net.JoinHostPort(host, port)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tc, DialContext: dial, DisableKeepAlives: true}}, nil
}

// readyAnswer is what `ebb doctor` and `ebb health` read of /readyz.
type readyAnswer struct {
	Dependencies []struct{ Name, State, Warning, Reason string }
}

// down names the dependencies that are down, each with its reason where the server gave one.
func (r readyAnswer) down() []string {
	var names []string
	for _, x := range r.Dependencies {
		switch {
		case x.State == "up" || x.State == "warning":
		case x.Reason != "":
			names = append(names, x.Name+" ("+out.Line(x.Reason)+")")
		default:
			names = append(names, x.Name)
		}
	}
	return names
}

// unreachable tells why a request to ebb had no answer.
func unreachable(at string, err error) finding {
	const check = "server"
	why := err
	if e, ok := why.(*url.Error); ok { //nolint:errorlint // its own words would repeat the URL
		why = e.Err
	}
	if distrusted(err) {
		return finding{check, "fail", "ebb answers at " + at + ", and its certificate is not trusted: " + out.Line(why.Error()),
			"name the CA of the certificate with --ca-file or EBB_CA_FILE, or renew the certificate"}
	}
	if _, ok := why.(tls.RecordHeaderError); ok { //nolint:errorlint // as net/http returns it
		return finding{check, "fail", "what answers at " + at + " does not speak TLS", "check the scheme of --url and of public_url"}
	}
	return finding{check, "fail", "no ebb answers at " + at + ": " + out.Line(why.Error()), "start `ebb serve`, or check --url and the network"}
}
