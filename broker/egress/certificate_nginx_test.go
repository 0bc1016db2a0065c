package egress_test

import (
	"crypto"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
)

// inNginx configures nginx to admit clients with a certificate of an authority, and to return the
// subject.
const inNginx = `daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/log;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; scgi_temp_path %[1]s/d; uwsgi_temp_path %[1]s/e;
  server {
    listen %[2]s ssl http2;
    ssl_certificate %[1]s/server.pem; ssl_certificate_key %[1]s/server.key;
    ssl_client_certificate %[1]s/clients.pem; ssl_verify_client on; ssl_verify_depth 3; ssl_protocols %[3]s;
    location / { return 200 "$ssl_client_verify $ssl_client_s_dn $server_protocol $ssl_protocol"; }
  }
}
`

// startNginx serves under the name of a bed's upstream, with the upstream's certificate.
func startNginx(t *testing.T, a *clientcerttest.Authority, b *bed, protocols string) (address string) {
	t.Helper()
	program, dir := counterpart.Program(t, "nginx"), t.TempDir()
	address = fmt.Sprintf("127.0.0.1:%d", counterpart.FreePort(t))
	server := b.upstream.TLS.Certificates[0]
	for name, text := range map[string]string{
		"conf": fmt.Sprintf(inNginx, dir, address, protocols), "clients.pem": clientcerttest.PEM(a.Root),
		"server.key": clientcerttest.KeyPEM(t, server.PrivateKey.(crypto.Signer)), "server.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]})),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-e", filepath.Join(dir, "log"), "-p", dir, "-c", filepath.Join(dir, "conf"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, err := os.ReadFile(filepath.Join(dir, "log")); t.Failed() && err == nil {
			t.Logf("nginx says:\n%s", said)
		}
	})
	until(t, "nginx listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return address
}

// nginx admits clients with a certificate of its authority, and rejects others by a response, which
// the sandbox gets.
func TestClientCertificateAtNginx(t *testing.T) {
	t.Parallel()
	a := clientcerttest.New(t)
	for protocols, want := range map[string]string{"TLSv1.3": "SUCCESS CN=ebb HTTP/2.0 TLSv1.3", "TLSv1.2": "SUCCESS CN=ebb HTTP/2.0 TLSv1.2"} {
		var host string
		b := newBedOf(t, echo, func(b *bed, c *static.Config) {
			_, port, _ := net.SplitHostPort(startNginx(t, a, b, protocols))
			host = "api.example.com:" + port
			c.Hosts, c.ClientCertificate = []string{host}, &static.Kept{Secret: "mtls"}
			if err := b.secrets.Put(t.Context(), "mtls", secret.New(a.Client(t, "ebb"))); err != nil {
				t.Fatal(err)
			}
		}, func(*brokertest.Config) {})
		x := b.sandbox(t)
		auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
		if res, body := send(t, x.client(t, true), "GET", "https://"+host+"/v1/x", "", "Authorization", auth); res.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %s %q", protocols, res.Status, body)
		}
		if err := b.secrets.Put(t.Context(), "mtls", secret.New(clientcerttest.New(t).Client(t, "ebb"))); err != nil {
			t.Fatal(err)
		}
		if res, body := send(t, x.client(t, true), "GET", "https://"+host+"/v1/x", "", "Authorization", auth); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "The SSL certificate error") {
			t.Errorf("%s, one that it does not know: %s %q", protocols, res.Status, body)
		}
	}
}
