package box

import "strconv"

// ProxyPort is the port of a box's loopback that leads to the egress proxy.
const ProxyPort = 3128

// AWSPort is the port of a box's loopback where AWS's clients find credentials.
const AWSPort = 3129

// itself are the names and addresses of the box's own loopback, ::1 also as Python's urllib spells it. The names of Direct lead there too, and are not
// among them: programs that know the proxy reach those hosts through it.
const itself = "localhost,127.0.0.1,::1,[::1]"

// Bootstrap are the variables by which tools find the way out of a box and trust the CA
// that is in Bundle. No host goes round the proxy, because there is no other way. What listens in the box itself
// is reached without it.
func Bootstrap() []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	var env []string
	// curl reads only the lower case of http_proxy, others only the upper.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "npm_config_https_proxy", "CARGO_HTTP_PROXY"} {
		env = append(env, name+"="+proxy)
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "AWS_CA_BUNDLE",
		"CARGO_HTTP_CAINFO", "DENO_CERT", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		env = append(env, name+"="+Bundle)
	}
	return append(env,
		"NO_PROXY="+itself, "no_proxy="+itself, "NODE_USE_ENV_PROXY=1", "AWS_EC2_METADATA_DISABLED=true", "GIT_TERMINAL_PROMPT=0",
		"CLOUDSDK_PROXY_TYPE=http", "CLOUDSDK_PROXY_ADDRESS=127.0.0.1", "CLOUDSDK_PROXY_PORT="+strconv.Itoa(ProxyPort))
}
