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

	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// healthTime is the timeout of one health check. /readyz itself waits up to 3 s
// for its dependencies.
const healthTime = 5 * time.Second

func newHealth(c *cli) *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use: "health", Short: "Exit with 0 if the ebb of this machine is ready, with 1 if not", Args: cobra.NoArgs,
		Long: `Request /readyz of the ebb that uses the data directory, at the address it listens on,
and exit with 1 unless it responds within 5s that it is ready. The command needs no key
and writes nothing to the audit log; use it as the health check of a container. With
--live it requests /livez: use that where a failure restarts ebb, because a restart does
not repair a dependency.`,
	}
	cmd.Flags().BoolVar(&live, "live", live, "check only that the process responds (/livez), not its dependencies")
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
		if err := (serveCommand{c}).health(ctx, cfg, path); err != nil {
			return err
		}
		c.printf("ok\n")
		return nil
	})
	return cmd
}

// health requests path from the ebb of the data directory, and fails unless the
// status is 200.
func (c serveCommand) health(ctx context.Context, cfg config.Config, path string) error {
	at, running := runningURL(cfg.DataDir)
	if !running {
		return fail("no ebb uses the data directory "+cfg.DataDir, "start `ebb serve`, or name the directory with EBB_DATA_DIR")
	}
	u, err := url.Parse(at)
	if err != nil {
		return fail("parse the URL of the running ebb: "+err.Error(), "restart `ebb serve`")
	}
	client, err := c.ownClient(cfg)
	if err != nil {
		return err
	}
	scheme := u.Scheme
	if cfg.PublicURL != "" && cfg.TLS.Cert == "" {
		scheme = "http" // a proxy on this machine adds TLS
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+u.Host+path, nil)
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
		return fail("read the response of "+path+": "+err.Error(), "see the log of ebb")
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var ready readyAnswer
	if json.Unmarshal(body, &ready) != nil || len(ready.down()) == 0 {
		return fail(fmt.Sprintf("%s answered %d", path, resp.StatusCode), "see the log of ebb")
	}
	return fail("not ready: "+strings.Join(ready.down(), "; "), "see the log of ebb")
}

// ownClient connects to the address that ebb listens on and not to public_url, where another
// replica may answer. It trusts the certificate that ebb is configured with.
func (c serveCommand) ownClient(cfg config.Config) (*http.Client, error) {
	tc, err := command.TLSConfig(c.caFile)
	if err != nil {
		return nil, err
	}
	if cfg.TLS.Cert != "" {
		pem, err := os.ReadFile(cfg.TLS.Cert)
		if err != nil {
			return nil, fail("read tls.cert: "+err.Error(), "check tls.cert")
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
		if port != "0" { // a port chosen by the system is only in addr
			addr = net.JoinHostPort(host, port)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tc, DialContext: dial, DisableKeepAlives: true}}, nil
}

// readyAnswer is the part of /readyz that `ebb doctor` and `ebb health` read.
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

// unreachable returns the finding for a request to ebb that got no response.
func unreachable(at string, err error) finding {
	const check = "server"
	why := err
	if e, ok := why.(*url.Error); ok { //nolint:errorlint // its text would repeat the URL
		why = e.Err
	}
	if command.Distrusted(err) {
		return finding{check, "fail", "the certificate of ebb at " + at + " is not trusted: " + out.Line(why.Error()),
			"name the CA of the certificate with --ca-file or EBB_CA_FILE, or renew the certificate"}
	}
	if _, ok := why.(tls.RecordHeaderError); ok { //nolint:errorlint // as net/http returns it
		return finding{check, "fail", "the server at " + at + " does not use TLS", "check the scheme of --url and of public_url"}
	}
	return finding{check, "fail", "no ebb answers at " + at + ": " + out.Line(why.Error()), "start `ebb serve`, or check --url and the network"}
}
