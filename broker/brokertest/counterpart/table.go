package counterpart

// required is the variable that lists the required counterparts.
const required = "EBB_TEST_REQUIRE"

// variable describes an environment variable for a counterpart.
type variable struct {
	name string // of the counterpart, as EBB_TEST_REQUIRE lists it
	is   string // its expected value
}

// variables are also described in CONTRIBUTING.md.
var variables = map[string]variable{
	"EBB_TEST_REDIS":          {"redis", "host:port of a Redis that tests may fill"},
	"EBB_TEST_REDIS_CLUSTER":  {"redis-cluster", "host:port of nodes, comma between"},
	"EBB_TEST_REDIS_SENTINEL": {"redis-sentinel", "host:port of Sentinels, comma between"},
	"EBB_TEST_POSTGRES":       {"postgres", "the URL of a server on which tests may create databases"},
	"EBB_TEST_VAULT":          {"vault", "the URL of a Vault whose root token is root"},
	"EBB_TEST_VAULT_SERVER":   {"vault", "the program that .ci/vaultbed builds"},
	"EBB_TEST_SSHD":           {"sshd", "ssh://user@host:port/dir of an sshd that trusts what tests put into dir, as .ci/beds.sh does"},
	"EBB_TEST_SMTP":           {"smtp", "a directory with server, ca.pem and maildir of a mail server, as .ci/beds.sh does"},
	"EBB_TEST_RGW":            {"rgw", "http://KEY:SECRET@host:port of a Ceph RGW"},
	"EBB_TEST_KUBE":           {"kube", "a directory with server, ca.pem and admin.token of an API server, as .ci/beds-slow.sh does"},
	"EBB_TEST_MINIO":          {"minio", "http://KEY:SECRET@host:port of a MinIO, as .ci/beds-slow.sh does"},
	"EBB_TEST_SPIRE":          {"spire", "a directory with agent.sock, bundle.json and endpoint of a SPIRE that gives its tests an SVID, as .ci/beds-slow.sh does"},
	"EBB_TEST_NODE_JUDGE":     {"node", "a directory where web/api/testdata/judge/package.json is installed"},
	"EBB_TEST_NODE_OCTOKIT":   {"node", "a directory where broker/provider/github/testdata/judge/package.json is installed"},
	"EBB_TEST_NODE_OP":        {"node-op", "a directory where broker/provider/oauth/testdata/op/package.json is installed"},
	"EBB_TEST_AGENTS":         {"agents", "a directory where cmd/ebb/testdata/agents/package.json is installed"},
	"EBB_TEST_BWRAP":          {"bwrap", "the path of bubblewrap's bwrap"},
	"EBB_TEST_DOCKER":         {"docker", "unix:///PATH of a Docker daemon's socket that has the image ebb-bed, as .ci/beds.sh does"},
	"EBB_TEST_RUNC":           {"runc", "the path of runc; its tests need root"},
	"EBB_TEST_CONTAINERD":     {"containerd", "the path of a containerd's socket, as .ci/beds.sh does; its tests need root"},
	"EBB_TEST_SDK_TYPESCRIPT": {"sdk-typescript", "a copy of web/sdk/typescript in which its package is installed and built"},
	"EBB_TEST_PYTHON":         {"sdk-python", "the path of a Python, 3.10 or newer, that has the package cryptography (Debian: python3-cryptography)"},
	"EBB_TEST_GITHUB_CLIENTS": {"github-clients", "the program that broker/provider/github/testdata/judge/clients builds"},
}

// machine lists capabilities of the machine, which the tests that need them check.
var machine = []string{"cgroups", "hostname", "peer-pidfd", "pid-choice", "root"}

// programs maps programs, looked up on the PATH, to their counterparts.
var programs = map[string]string{
	"curl": "tools", "wget": "tools", "python3": "tools", "kubectl": "tools",
	"initdb": "postgres", "postgres": "postgres", "psql": "postgres", "redis-server": "redis", "ctr": "containerd", "ssh-keygen": "sshd", "git": "git", "gh": "gh", "openssl": "openssl", "nginx": "nginx",
	"swtpm": "swtpm", "swtpm_setup": "swtpm", "swtpm_localca": "swtpm",
}
