package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRunLocalServer: programs in a sandbox reach a server of the sandbox itself, which is not what the proxy is
// for, and the proxy's own URLs, with it and without.
func TestRunLocalServer(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	out, stderr := b.run(`
echo served >file
cat >server.py <<'X'
import http.server, socket
class V6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
V6(("::", 8099), http.server.SimpleHTTPRequestHandler).serve_forever()
X
/usr/bin/python3 server.py 2>/dev/null &
until curl -sS --noproxy '*' -o /dev/null http://127.0.0.1:8099/file 2>/dev/null; do sleep 0.05; done
for host in localhost 127.0.0.1 '[::1]'; do
  echo curl $host $(curl -sS --fail http://$host:8099/file 2>&1)
  echo wget $host $(wget -qO- http://$host:8099/file 2>&1)
  echo urllib $host $(/usr/bin/python3 -c "import urllib.request; print(urllib.request.urlopen('http://$host:8099/file').read().decode().strip())" 2>&1 | tail -1)
  echo node $host $(node -e "fetch('http://$host:8099/file').then(r => r.text()).then(t => console.log(t), e => console.log(e.message))" 2>&1)
done
echo box $(curl -sS --fail http://127.0.0.1:3128/box | head -c 10)
echo proxied $(curl -sS --fail --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:3128/box | head -c 10)
echo base $(curl -sS --fail -H "Authorization: Bearer $KEY" http://127.0.0.1:3128/to/$HOST/v1/base)
echo direct $(curl -sS --fail -H "Authorization: Bearer $KEY" https://$HOST/v1/direct)
echo none $(curl -sS --fail --noproxy '*' -H "Authorization: Bearer $KEY" https://$HOST/v1/none)
true`, "--host", b.host)
	for _, program := range []string{"curl", "wget", "urllib", "node"} {
		if _, err := exec.LookPath(program); err != nil && program != "urllib" {
			continue
		}
		for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
			if !strings.Contains(out, program+" "+host+" served\n") {
				t.Errorf("%s does not reach %s", program, host)
			}
		}
	}
	for _, want := range []string{`box {"task_id"`, `proxied {"task_id"`, "base /v1/base by Bearer [redacted]", "direct /v1/direct by Bearer [redacted]", "none /v1/none by Bearer [redacted]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s%s", out, stderr)
	}
}
