package egressbench

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Operations that are measured.
const (
	opRequest = "request"
	opBody    = "body"
	opTunnels = "idle tunnels"
	opRevoke  = "revoke"
	opRun     = "run true"

	wayBwrap = "bubblewrap"
	wayRun   = "ebb run"
)

// Row is one line of the report: the median of all rounds, for each figure
// separately.
type Row struct {
	load.Result
	Way string `json:"way"`
	// CPU is the processor time of the proxy for one request, in user and kernel
	// mode, including background work; 0 without a proxy.
	CPU      time.Duration `json:"proxy_cpu_ns"`
	MBps     float64       `json:"mb_per_second,omitempty"`  // 1e6 bytes
	Resident int64         `json:"resident_bytes,omitempty"` // memory of ebb, and the part added by the measured operation
	Added    int64         `json:"added_bytes,omitempty"`
	Note     string        `json:"note,omitempty"`
}

// Bound is a bound that egress must meet, and the measured value.
type Bound struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Bound    float64 `json:"bound"`
	Measured float64 `json:"measured"`
	Holds    bool    `json:"holds"`
}

// Report is the whole report.
type Report struct {
	Target string    `json:"target"`
	At     time.Time `json:"at"`
	Load   string    `json:"load_average,omitempty"` // of the last minute before the start
	Rows   []Row     `json:"rows"`
	Bounds []Bound   `json:"bounds"`
}

func (b *run) straight(scheme string) *url.URL {
	_, port, _ := net.SplitHostPort(b.Address)
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(Host, port)}
}

// find returns a row, nil if it was not measured. clients 0 = any.
func (r *Report) find(op, way string, clients int) *Row {
	for i := range r.Rows {
		if x := &r.Rows[i]; strings.HasPrefix(x.Op, op) && x.Way == way && (clients == 0 || x.Clients == clients) {
			return x
		}
	}
	return nil
}

// judge compares the rows with the bounds. A row that was not measured has no
// bound.
func (r *Report) judge() {
	most := func(name, unit string, bound, measured float64) {
		r.Bounds = append(r.Bounds, Bound{name, unit, bound, measured, measured <= bound})
	}
	least := func(name, unit string, bound, measured float64) {
		r.Bounds = append(r.Bounds, Bound{name, unit, bound, measured, measured >= bound})
	}
	for _, x := range r.Rows {
		ebb := strings.HasPrefix(x.Way, "ebb, ")
		base := r.find(opRequest, wayUnix, x.Clients)
		straight := r.find(opRequest, wayStraight, x.Clients)
		what := fmt.Sprintf("%s, %d clients", x.Way, x.Clients)
		if x.Op == opRequest && ebb && base != nil && x.Clients > 1 {
			if base.CPU > 0 {
				most("CPU for a request, of nginx's by unix: "+what, "x", 2.5, float64(x.CPU)/float64(base.CPU))
			}
			part := 0.5
			if x.Way == wayBase {
				part = 0.6
			}
			least("requests/s, of nginx's by unix: "+what, "x", part, x.Rate/base.Rate)
		}
		if x.Op == opRequest && ebb && x.Clients == 1 && straight != nil {
			most("added p50: "+what, "us", 200, float64((x.P50-straight.P50).Nanoseconds())/1e3)
		}
		// ebb does not buffer either.
		if base := r.find(opBody, wayStream, 0); strings.HasPrefix(x.Op, opBody) && ebb && base != nil {
			least(x.Op+", MB/s, of nginx's unbuffered: "+x.Way, "x", 0.8, x.MBps/base.MBps)
		}
	}
	if x := r.find(opTunnels, wayMITM, 0); x != nil {
		most(fmt.Sprintf("memory that %d idle tunnels add", x.Ops), "MB", 60, mb(x.Added))
	}
	if x := r.find(opRevoke, wayMITM, 0); x != nil {
		most(fmt.Sprintf("p99 until %d streams are cut", x.Clients), "ms", 50, float64(x.P99.Microseconds())/1e3)
	}
	run, plain := r.find(opRun, wayRun, 0), r.find(opRun, wayBwrap, 0)
	if run != nil && plain != nil {
		most("p50 of ebb run over bubblewrap", "ms", 300, float64((run.P50-plain.P50).Microseconds())/1e3)
	}
}
