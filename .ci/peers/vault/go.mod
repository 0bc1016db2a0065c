module ebb-ci/vaultpeer

go 1.26

require (
	github.com/armon/go-metrics v0.4.1
	github.com/hashicorp/go-hclog v1.6.3
	github.com/hashicorp/vault v1.21.0
	github.com/hashicorp/vault/sdk v0.20.0
)
