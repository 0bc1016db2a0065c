package kubernetes_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

// page returns the objects and the configurations of docs/attestors/kubernetes.md,
// which operators copy.
func page(t *testing.T) (objects string, configs []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/attestors/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		switch block := string(m[1]); {
		case strings.Contains(block, "attestors:"):
			configs = append(configs, block)
		case strings.Contains(block, "kind: ClusterRole\n"):
			objects = block
		}
	}
	if objects == "" || len(configs) != 2 {
		t.Fatalf("the page has no objects, or %d configurations in place of two", len(configs))
	}
	return objects, configs
}

// decoded returns a configuration of the page as ebb decodes it.
func decoded(t *testing.T, block string) kubernetes.Config {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(block))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Attestors []struct {
			Name, Kind string
			Config     json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &f); err != nil || len(f.Attestors) != 1 || f.Attestors[0].Kind != "kubernetes" {
		t.Fatalf("%s: %v", text, err)
	}
	c, err := kubernetes.Decode(f.Attestors[0].Config)
	if err != nil {
		t.Fatal(err)
	}
	c.Name = f.Attestors[0].Name
	return c
}

// TestPage checks that the configurations of the page are valid.
func TestPage(t *testing.T) {
	t.Parallel()
	_, configs := page(t)
	first, second := decoded(t, configs[0]), decoded(t, configs[1])
	first.TokenFile, first.CAFile = kubetest.File(t, "login"), ""
	for _, c := range []kubernetes.Config{first, second} {
		if _, err := kubernetes.New(c); err != nil {
			t.Error(err)
		}
	}
}

// bed is a real cluster with a namespace for one test, in which ebb has the permissions
// of the page.
type bed struct {
	*kubetest.Cluster
	t  *testing.T
	ns string
}

func realBed(t *testing.T) bed {
	t.Helper()
	c := kubetest.Real(t)
	b := bed{c, t, c.Namespace()}
	objects, _ := page(t)
	role := regexp.MustCompile(`namespace: agents\b|\{name: agents\}`)
	c.Apply(role.ReplaceAllStringFunc(objects, func(s string) string { return strings.Replace(s, "agents", b.ns, 1) }))
	return b
}

// config returns the configuration of the page for this cluster.
func (b bed) config() kubernetes.Config {
	b.t.Helper()
	_, configs := page(b.t)
	c := decoded(b.t, configs[0])
	c.Server, c.CAFile, c.TokenFile = b.Server, b.CAFile, kubetest.File(b.t, b.Login("ebb", "ebb"))
	c.Namespaces, c.Poll = []string{b.ns}, time.Second
	return c
}

const audience = "https://ebb.example.com"

// sandbox makes a pod that a Sandbox controls, and returns its UID and a token.
func (b bed) sandbox(name string, spec map[string]any) (uid, token string) {
	b.t.Helper()
	uid = b.Pod(b.ns, name, "worker", object{"ownerReferences": []any{
		object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": "s-" + name, "uid": "11111111-1111-1111-1111-111111111111", "controller": true},
	}}, spec)
	return uid, b.Token(b.ns, "worker", audience, name, uid)
}

// setStatus sets the status of a pod, as a kubelet does.
func (b bed) setStatus(pod string, status object) {
	b.t.Helper()
	b.Do(http.MethodPatch, "/api/v1/namespaces/"+b.ns+"/pods/"+pod+"/status", object{"status": status})
}

func TestRealToken(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	uid, token := b.sandbox("tool-1", object{"nodeName": "node-1"})
	b.setStatus("tool-1", object{"phase": "Running", "containerStatuses": []any{
		object{"name": "tool", "image": "registry.example/tool", "imageID": "registry.example/tool@" + digest, "ready": true, "restartCount": 0}}})
	at := open(t, b.config())
	id, err := at.Attest(t.Context(), evidence(t, token))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"namespace": b.ns, "pod": "tool-1", "pod_uid": uid, "service_account": "worker", "node": "node-1", "owner_kind": "Sandbox",
		"owner_group": "agents.x-k8s.io", "owner_name": "s-tool-1", "owner_uid": "11111111-1111-1111-1111-111111111111", "image_digest": digest}
	for name, value := range want {
		if id.Selectors[name] != value {
			t.Errorf("selector %s is %q, want %q", name, id.Selectors[name], value)
		}
	}
	if id.Selectors["service_account_uid"] == "" || len(id.Selectors) != len(want)+1 || id.Subject != "pod:"+b.ns+"/tool-1/"+uid {
		t.Errorf("got %+v", id)
	}
	if left := time.Until(id.NotAfter); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("it ends in %s", left)
	}
	bare := b.Pod(b.ns, "bare", "worker", nil, nil)
	for name, tt := range map[string]struct {
		token  string
		reason attest.Reason
	}{
		"for another audience": {b.Token(b.ns, "worker", "https://other.example", "tool-1", uid), attest.ReasonAudience},
		"for the API server":   {b.Login(b.ns, "worker"), attest.ReasonAudience},
		"bound to no pod":      {b.Token(b.ns, "worker", audience, "", ""), attest.ReasonClaims},
		"altered":              {token[:len(token)-8] + "AAAAAAAA", attest.ReasonSignature},
		"of no Sandbox":        {b.Token(b.ns, "worker", audience, "bare", bare), attest.ReasonClaims},
	} {
		if id, err := at.Attest(t.Context(), evidence(t, tt.token)); attesttest.Reason(err) != tt.reason || id.Attestor != "" {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	unbound := b.config()
	unbound.AllowUnbound = true
	if id, err := open(t, unbound).Attest(t.Context(), evidence(t, b.Token(b.ns, "worker", audience, "", ""))); err != nil || !strings.HasPrefix(id.Subject, "serviceaccount:"+b.ns+"/worker/") {
		t.Errorf("unbound, allowed: %+v, %v", id, err)
	}
}

// Mode jwks works with the cluster's own key set, and does not detect a deletion.
func TestRealSigned(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	uid, token := b.sandbox("tool-1", nil)
	keys, err := json.Marshal(b.Do(http.MethodGet, "/openid/v1/jwks", nil))
	if err != nil {
		t.Fatal(err)
	}
	issuer, _ := b.Do(http.MethodGet, "/.well-known/openid-configuration", nil)["issuer"].(string)
	at := open(t, kubernetes.Config{Name: "cluster", Mode: kubernetes.ModeJWKS, Audience: audience, Issuer: issuer, JWKSFile: kubetest.File(t, string(keys))})
	for _, there := range []bool{true, false} {
		if id, err := at.Attest(t.Context(), evidence(t, token)); err != nil || id.Selectors["pod_uid"] != uid {
			t.Errorf("pod there %t: %+v, %v", there, id, err)
		}
		if there {
			b.DeletePod(b.ns, "tool-1", 0)
		}
	}
}

// After a pod is deleted, Watch returns, and ebb rejects its token at once, although
// the API server caches for 10 s that the token was valid. Later the API server refuses
// it too.
func TestRealDeletion(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	_, token := b.sandbox("tool-1", object{"nodeName": "node-1"})
	_, stays := b.sandbox("tool-2", object{"nodeName": "node-1"})
	at, ok := open(t, b.config()).(attest.Watcher)
	if !ok {
		t.Fatal("it does not watch")
	}
	id, err := at.Attest(t.Context(), evidence(t, token))
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		exit attest.Exit
		err  error
		at   time.Time
	}
	exited := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		d, err := at.Watch(ctx, id)
		exited <- result{d, err, time.Now()}
	}()
	if ok, why := b.Review(token, audience); !ok { // the API server caches the result from here on
		t.Fatal(why)
	}
	start := time.Now()
	b.DeletePod(b.ns, "tool-1", 0)
	if _, err := at.Attest(t.Context(), evidence(t, token)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("right after: %v", err)
	}
	got := <-exited
	if got.err != nil || !ended(got.exit.How, "pod_deleted") {
		t.Errorf("watching: %+v", got)
	}
	t.Logf("Watch saw the exit after %s", got.at.Sub(start).Round(10*time.Millisecond))
	for ok := true; ok; {
		if time.Since(start) > 15*time.Second {
			t.Fatal("the API server still accepts the token")
		}
		time.Sleep(100 * time.Millisecond) // waits for the cache of a real server to expire
		ok, _ = b.Review(token, audience)
	}
	t.Logf("TokenReview refused the token after %s", time.Since(start).Round(100*time.Millisecond))
	if _, err := at.Attest(t.Context(), evidence(t, token)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := at.Attest(t.Context(), evidence(t, stays)); err != nil {
		t.Errorf("the other pod: %v", err)
	}
	// Another pod of that name is another sandbox.
	b.sandbox("tool-1", nil)
	if _, err := at.Attest(t.Context(), evidence(t, token)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("with a pod of the same name: %v", err)
	}
}

// ended compares how a pod ended. A pod without a kubelet is removed right after the
// deletion request, so a test can observe it in either state.
func ended(how, want string) bool {
	return how == want || how == "pod_terminating" && want == "pod_deleted"
}

// The phases that a kubelet reports, and a deletion with a grace period.
func TestRealEnds(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	for name, tt := range map[string]struct {
		do   func(pod string)
		kept bool
		how  string
	}{
		"succeeded":   {func(pod string) { b.setStatus(pod, object{"phase": "Succeeded"}) }, false, "pod_succeeded"},
		"failed":      {func(pod string) { b.setStatus(pod, object{"phase": "Failed"}) }, false, "pod_failed"},
		"terminating": {func(pod string) { b.DeletePod(b.ns, pod, 300) }, false, "pod_terminating"},
		"kept":        {func(pod string) { b.DeletePod(b.ns, pod, 300) }, true, "pod_deleted"},
		"replaced": {func(pod string) {
			b.DeletePod(b.ns, pod, 0)
			b.sandbox(pod, nil)
		}, false, "pod_replaced"},
	} {
		pod := "p-" + strings.ToLower(rand.Text()[:8])
		_, token := b.sandbox(pod, object{"nodeName": "node-1"})
		b.setStatus(pod, object{"phase": "Running"})
		c := b.config()
		c.UntilRemoved = tt.kept
		at, _ := open(t, c).(attest.Watcher)
		id, err := at.Attest(t.Context(), evidence(t, token))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		start := time.Now()
		tt.do(pod)
		_, err = at.Attest(t.Context(), evidence(t, token))
		if tt.kept != (err == nil) || !tt.kept && attesttest.Reason(err) != attest.ReasonExited {
			t.Errorf("%s: %v", name, err)
		}
		if tt.kept {
			b.DeletePod(b.ns, pod, 0)
		}
		d, err := at.Watch(t.Context(), id)
		if err != nil || !ended(d.How, tt.how) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if tt.how == "pod_terminating" && (d.At.IsZero() || d.At.Sub(start).Abs() > 5*time.Second) {
			t.Errorf("%s: it exited at %s, deleted at %s", name, d.At, start)
		}
	}
	// A pod on a node that does not respond counts as running.
	_, token := b.sandbox("lost", object{"nodeName": "node-1"})
	b.setStatus("lost", object{"phase": "Unknown"})
	if _, err := open(t, b.config()).Attest(t.Context(), evidence(t, token)); err == nil || attesttest.Reason(err) != "" {
		t.Errorf("unknown: %v", err)
	}
}

// With fewer permissions than the page lists, ebb returns errors that are not
// rejections.
func TestRealRights(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	_, token := b.sandbox("tool-1", nil)
	c := b.config()
	c.TokenFile = kubetest.File(t, b.Login(b.ns, "ebb")) // an account without any
	at, _ := open(t, c).(attest.Watcher)
	if _, err := at.Attest(t.Context(), evidence(t, token)); err == nil || attesttest.Reason(err) != "" || !strings.Contains(err.Error(), "tokenreviews") {
		t.Errorf("no rights: %v", err)
	}
	if d, err := at.Watch(t.Context(), attest.Identity{Attestor: "cluster", Selectors: map[string]string{"namespace": b.ns, "pod": "gone", "pod_uid": podUID}}); err == nil || d.How != "" {
		t.Errorf("watching: %+v, %v", d, err)
	}
	c.TokenFile = kubetest.File(t, "nobody's")
	if _, err := open(t, c).Attest(t.Context(), evidence(t, token)); err == nil || attesttest.Reason(err) != "" || !strings.Contains(err.Error(), "401") {
		t.Errorf("no login: %v", err)
	}
	// Pods of a namespace that ebb may not read cannot be judged; the setting
	// namespaces excludes them.
	other := b
	other.ns = b.Namespace()
	_, foreign := other.sandbox("tool-1", nil)
	c = b.config()
	if _, err := open(t, c).Attest(t.Context(), evidence(t, foreign)); attesttest.Reason(err) != attest.ReasonClaims {
		t.Errorf("another namespace: %v", err)
	}
	c.Namespaces = nil
	if _, err := open(t, c).Attest(t.Context(), evidence(t, foreign)); err == nil || attesttest.Reason(err) != "" {
		t.Errorf("another namespace, accepted: %v", err)
	}
}

// With the permission to watch, an exit is detected at once, also with a long poll;
// without it, within one poll.
func TestRealWatch(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	reader := b.Namespace()
	b.Apply(strings.NewReplacer("NS", b.ns, "READER", reader).Replace(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: NS}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: ebb, namespace: READER}]`))
	for name, tt := range map[string]struct {
		account string // namespace of ebb's
		poll    time.Duration
		end     func(pod string)
		how     string
	}{
		"watching, deleted":     {"ebb", 5 * time.Minute, func(pod string) { b.DeletePod(b.ns, pod, 0) }, "pod_deleted"},
		"watching, terminating": {"ebb", 5 * time.Minute, func(pod string) { b.DeletePod(b.ns, pod, 300) }, "pod_terminating"},
		"watching, failed":      {"ebb", 5 * time.Minute, func(pod string) { b.setStatus(pod, object{"phase": "Failed"}) }, "pod_failed"},
		"polling, deleted":      {reader, time.Second, func(pod string) { b.DeletePod(b.ns, pod, 0) }, "pod_deleted"},
	} {
		pod := "p-" + strings.ToLower(rand.Text()[:8])
		uid, _ := b.sandbox(pod, object{"nodeName": "node-1"})
		var log attesttest.Log
		c := b.config()
		c.TokenFile, c.Poll, c.Logger = kubetest.File(t, b.Login(tt.account, "ebb")), tt.poll, slog.New(slog.NewTextHandler(&log, nil))
		at, _ := open(t, c).(attest.Watcher)
		done := make(chan time.Time, 1)
		time.AfterFunc(time.Second, func() { // by then the watch, or polling, is mostly under way; if not the exit is seen as well
			done <- time.Now()
			tt.end(pod)
		})
		d, err := at.Watch(t.Context(), attest.Identity{Attestor: "cluster", Selectors: map[string]string{"namespace": b.ns, "pod": pod, "pod_uid": uid}})
		took := time.Since(<-done)
		if err != nil || !ended(d.How, tt.how) || took > 5*time.Second {
			t.Errorf("%s: %+v, %v after %s", name, d, err, took)
		}
		if polling := strings.Contains(log.String(), "not watched"); polling != (tt.account == reader) {
			t.Errorf("%s: the log says %q", name, log.String())
		}
		t.Logf("%s: Watch saw the exit after %s", name, took.Round(time.Millisecond))
	}
}
