package main

import (
	"strings"
	"testing"
)

// TestRunLocalServer: programs in a sandbox reach a server in the same sandbox
// directly, and the proxy's own URLs, with proxy settings and without.
//
//ebb:invariant I2 Programs reach servers on the sandbox's own loopback without the egress proxy, and the egress endpoint serves requests for itself that arrive as proxy requests
func TestRunLocalServer(t *testing.T) {
	t.Parallel()
	installed(t, "python3")
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
cat >test_shop.py <<'X'
import http.server, threading, urllib.request
import pytest
@pytest.fixture
def server():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"localhost:{s.server_address[1]}"
    s.shutdown()
def served(at):
    return urllib.request.urlopen(f"http://{at}/file").read() == b"served\n"
def test_of_its_own_server(server):
    assert served(server)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_of_a_server_beside_it(host):
    assert served(host + ":8099")
X
echo pytest-3 $(/usr/bin/pytest-3 -q -p no:cacheprovider test_shop.py 2>&1 | tail -1)
echo sandbox $(curl -sS --fail http://127.0.0.1:3128/sandbox | head -c 10)
echo proxied $(curl -sS --fail --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:3128/sandbox | head -c 10)
echo base $(curl -sS --fail -H "Authorization: Bearer $KEY" http://127.0.0.1:3128/to/$HOST/v1/base)
echo direct $(curl -sS --fail -H "Authorization: Bearer $KEY" https://$HOST/v1/direct)
echo none $(curl -sS --fail --noproxy '*' -H "Authorization: Bearer $KEY" https://$HOST/v1/none)
true`, "--host", b.host)
	reached := []string{"localhost served\n", "127.0.0.1 served\n", "[::1] served\n"}
	for program, says := range map[string][]string{"curl": reached, "wget": reached, "urllib": reached, "node": reached, "pytest-3": {"4 passed in "}} {
		t.Run(program, func(t *testing.T) {
			if program != "urllib" { // urllib is of the python3 that runs the server
				installed(t, program)
			}
			for _, want := range says {
				if !strings.Contains(out, program+" "+want) {
					t.Errorf("no %q: %s%s", program+" "+want, out, stderr)
				}
			}
		})
	}
	for _, want := range []string{`sandbox {"task_id"`, `proxied {"task_id"`, "base /v1/base by Bearer [redacted]", "direct /v1/direct by Bearer [redacted]", "none /v1/none by Bearer [redacted]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s%s", out, stderr)
	}
}
