package unixpeer_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/unixpeer"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, problem string }{
		{`{"require":["container_id"]}`, ""},
		{`{"require":["netns","uid"],"subject":"netns","liveness":"namespace"}`, ""},
		{`{"require":["pid","start_time"],"exe_digest":true}`, ""},
		{`{"require":["cgroup_id"],"cgroup_parents":["/sandboxes"],"nested":true}`, ""},
		{`{"require":["container_id","image_id","label/team"],"runtime_socket":"/run/docker.sock","labels":["team"]}`, ""},
		{`{"require":["container_id","image_digest","image"],"containerd_socket":"/run/containerd/containerd.sock","containerd_namespaces":["k8s.io","moby"],"labels":["team"]}`, ""},
		{`{"require":["container_id","containerd_namespace","runtime"],"containerd_socket":"/c","containerd_namespaces":["default"],"cgroup_parents":["/default"]}`, ""},
		{`{"require":["container_id"],"containerd_socket":"/c","containerd_namespaces":["default","moby"],"cgroup_parents":["/default"]}`, "list exactly one"},
		{`{"require":["container_id"],"containerd_socket":"/c"}`, "containerd_namespaces: list 1"},
		{`{"require":["container_id"],"containerd_socket":"/c","containerd_namespaces":["a/b"]}`, "containerd_namespaces: list 1"},
		{`{"require":["container_id"],"containerd_socket":"c","containerd_namespaces":["a"]}`, "absolute path"},
		{`{"require":["container_id"],"containerd_namespaces":["a"]}`, "need containerd_socket"},
		{`{"require":["container_id"],"containerd_socket":"/c","containerd_namespaces":["a"],"runtime_socket":"/d"}`, "are both set"},
		{`{"require":["container_id","image_digest"],"runtime_socket":"/d"}`, "image_digest needs containerd_socket"},
		{`{"require":["container_id","image_id"],"containerd_socket":"/c","containerd_namespaces":["a"]}`, "image_id needs runtime_socket"},
		{`{"require":["container_id","image"]}`, "image needs runtime_socket or containerd_socket"},
		{`{}`, "identifies one sandbox"},
		{`{"require":["uid"]}`, "uid alone fits every process"},
		{`{"require":["pid"]}`, "or pid and start_time"},
		{`{"require":["exe_sha256","image_id"]}`, "exe_sha256 needs exe_digest: true\nimage_id needs"},
		{`{"require":["container"]}`, `no selector "container"`},
		{`{"require":["container_id","label/x"]}`, "needs the label"},
		{`{"require":["netns"],"subject":"container"}`, "subject container needs container_id"},
		{`{"require":["netns"],"subject":"box"}`, "use container, netns or process"},
		{`{"require":["netns"],"liveness":"always"}`, "use process, namespace, container or none"},
		{`{"require":["netns"],"cgroup_parents":["/"]}`, "cgroup_parents"},
		{`{"require":["netns"],"cgroup_parents":["/a/../b"]}`, "cgroup_parents"},
		{`{"require":["netns"],"runtime_socket":"docker.sock"}`, "absolute path"},
		{`{"require":["netns"],"labels":["x"]}`, "labels need runtime_socket"},
		{`{"require":["netns"],"allow_uid":true}`, "allow_uid"},
		{`{"require":["netns"],"require":["uid"]}`, "it is there twice"},
		{`["netns"]`, "configuration"},
	} {
		c, err := unixpeer.Decode([]byte(tc.text))
		if err == nil {
			c.Name = "box"
			_, err = unixpeer.New(c)
		}
		for want := range strings.SplitSeq(tc.problem, "\n") {
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", tc.text, err, want)
			}
		}
	}
}

func TestCheckRegistration(t *testing.T) {
	t.Parallel()
	a, err := unixpeer.New(unixpeer.Config{Name: "box", Require: []string{"netns", "uid"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []map[string]string{nil, {"uid": "1000"}, {"netns": "1"}, {"netns": "", "uid": "1000"}, {"pid": "1", "start_time": "2"}} {
		if a.CheckRegistration(bad) == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if err := a.CheckRegistration(map[string]string{"netns": "4026532000", "uid": "1000", "pidns": "1"}); err != nil {
		t.Error(err)
	}
}
