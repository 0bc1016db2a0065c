package box

import "strconv"

// ProxyPort is the port on the sandbox's loopback that leads to the egress
// proxy.
const ProxyPort = 3128

// AWSPort is the port on the sandbox's loopback of the container credentials
// endpoint for AWS clients.
const AWSPort = 3129

// itself are the names and addresses of the sandbox's own loopback; [::1] is
// the spelling of Python's urllib. The names of Direct also resolve to loopback
// but are not in the list, because programs that use the proxy reach those
// hosts through it.
const itself = "localhost,127.0.0.1,::1,[::1]"

// Bootstrap returns the variables by which tools find the egress proxy and
// trust the CA in Bundle. Every host but the sandbox's own loopback goes
// through the proxy, because there is no other route.
func Bootstrap() []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	var env []string
	// curl reads http_proxy only in lower case, other tools only in upper case.
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
