package main

// examples are shown in the help of the commands, by their path.
var examples = map[string]string{
	"ebb example server": `  ebb example server
  ebb example server --listen 127.0.0.1:0`,
	"ebb task watch": `  ebb task watch --owner ann`,
	"ebb requests watch": `  ebb requests watch
  ebb requests watch -o json`,
	"ebb run": `  ebb run --scope 'local:reports/**:read' -- sh -c 'ebb token --scope local:reports/q3:read'
  ebb run --scope 'github:acme/shop/**:*' --git github.com=github:acme/shop/contents:write -- claude`,
	"ebb task open": `  ebb task open --name nightly --scope 'local:reports/**:read' --ticket -o json
  ebb task open --owner ann --scope 'local:reports/**:read' --ticket --ticket-ttl 15m`,
	"ebb task list": `  ebb task list --open
  ebb task list --owner ann --limit 0 -o csv`,
	"ebb task show":      `  ebb task show tsk_019a3f2c`,
	"ebb task ticket":    `  ebb task ticket tsk_019a3f2c`,
	"ebb task taint":     `  ebb task taint tsk_019a3f2c public-issue-comments`,
	"ebb task heartbeat": `  ebb task heartbeat tsk_019a3f2c`,
	"ebb task pause":     `  ebb task pause tsk_019a3f2c --reason 'unusual requests'`,
	"ebb task resume":    `  ebb task resume tsk_019a3f2c`,
	"ebb task complete": `  ebb task complete tsk_019a3f2c
  ebb task complete tsk_019a3f2c --wait=30s -o json`,
	"ebb task stop": `  ebb task stop tsk_019a3f2c --reason 'INC-4711: key found in a log'
  ebb task stop --owner ann --reason 'INC-4711: laptop lost'`,
	"ebb task receipt show":   `  ebb task receipt show tsk_019a3f2c --jws >receipt.jws`,
	"ebb task receipt verify": `  ebb task receipt verify receipt.jws --keys jwks.json --issuer https://ebb.example.com`,
	"ebb token": `  ebb token --ticket "$TICKET" --key agent.key --scope local:reports/q3:read
  ebb token --key agent.key --scope local:reports/q3:read --use 'GET http://127.0.0.1:8080/q3' | curl -H @- http://127.0.0.1:8080/q3
  ebb token --key agent.key --scope local:reports/q3:write --wait --reason 'correct the total'`,
	"ebb credential git":       `  git config credential.https://github.com.helper "!ebb credential git --scope github:acme/shop/contents:write"`,
	"ebb credential docker":    `  ebb credential docker --scope registry:acme/shop:pull get <server.txt`,
	"ebb credential kubectl":   `  ebb credential kubectl --scope 'cluster:shop/pods:read'`,
	"ebb credential aws":       `  aws configure set credential_process "ebb credential aws --scope 's3:data/in/**:read'"`,
	"ebb credential ssh-agent": `  ebb credential ssh-agent --scope ssh:web/deploy:login -a ./agent.sock`,
	"ebb mcp": `  ebb mcp --key agent.key
  ebb mcp --listen 127.0.0.1:8430 --require-scope local:mcp:use --server-id mcp --server-key mcp.key`,
	"ebb delegate": `  ebb delegate --key agent.key --scope local:reports/q3:read --ttl 10m`,
	"ebb hold":     `  ebb hold --key agent.key --grace 20s`,
	"ebb demo": `  ebb demo
  ebb demo --console`,
	"ebb requests list": `  ebb requests list
  ebb requests list --state denied --owner ann`,
	"ebb requests show":    `  ebb requests show req_019a3f5e`,
	"ebb requests approve": `  ebb requests approve req_019a3f5e --scope local:reports/q3:read --ttl 5m`,
	"ebb requests deny":    `  ebb requests deny req_019a3f5e --code too_broad --note 'read access is enough'`,
	"ebb console": `  ebb console
  ebb console --as operator`,
	"ebb break-glass list": `  ebb break-glass list --unreviewed`,
	"ebb leases list": `  ebb leases list --state live
  ebb leases list --task tsk_019a3f2c --since 24h -o json`,
	"ebb leases export": `  ebb leases export --resource 'acme/shop/**' --from 2026-11-24 --to 2026-11-25 >proof.jsonl`,
	"ebb leases usage":  `  ebb leases usage --by owner --since 168h`,
	"ebb leases show":   `  ebb leases show lse_019a3f61`,
	"ebb leases revoke": `  ebb leases revoke lse_019a3f61 --reason 'not needed any more'`,
	"ebb leases retry":  `  ebb leases retry lse_019a3f61`,
	"ebb leases force":  `  ebb leases force lse_019a3f61 --reason 'the account was deleted'`,
	"ebb audit list":    `  ebb audit list --task tsk_019a3f2c`,
	"ebb audit tail":    `  ebb audit tail -f --kind lease. -o json`,
	"ebb audit export":  `  ebb audit export -f audit.jsonl`,
	"ebb audit verify":  `  ebb audit verify audit.jsonl --whole --keys jwks.json`,
	"ebb audit accept-loss": `  ebb audit accept-loss
  ebb audit accept-loss --yes --reason 'restored the backup of 02:00'`,
	"ebb transcripts list": `  ebb transcripts list --task tsk_019a3f2c`,
	"ebb transcripts show": `  ebb transcripts show trn_019a3f7d`,
	"ebb policy show": `  ebb policy show
  ebb policy show --schema`,
	"ebb policy check":     `  ebb policy check ./policies`,
	"ebb policy test":      `  ebb policy test ./policies`,
	"ebb policy explain":   `  ebb policy explain --scope local:reports/q3:write --kind nightly --owner ann`,
	"ebb policy replay":    `  ebb policy replay audit.jsonl --dir ./draft --strict`,
	"ebb attest list":      `  ebb attest list`,
	"ebb attest explain":   `  ebb attest explain pods evidence.jwt --task tsk_019a3f2c`,
	"ebb attest challenge": `  ebb attest challenge --key agent.key --task tsk_019a3f2c`,
	"ebb serve": `  ebb serve
  ebb serve --config /etc/ebb/ebb.yaml`,
	"ebb config check":    `  ebb config check /etc/ebb/ebb.yaml`,
	"ebb keys list":       `  ebb keys list`,
	"ebb keys rotate":     `  ebb keys rotate --config /etc/ebb/ebb.yaml`,
	"ebb keys new":        `  ebb keys new ci.key --client-id ci >ci.jwk`,
	"ebb keys revoke":     `  ebb keys revoke 9Xr2 --since 2026-01-31T18:00:00Z --reason INC-4711`,
	"ebb secrets list":    `  ebb secrets list`,
	"ebb secrets put":     `  ebb secrets put calendar-refresh-token <token.txt`,
	"ebb secrets remove":  `  ebb secrets remove calendar-refresh-token`,
	"ebb providers list":  `  ebb providers list`,
	"ebb providers check": `  ebb providers check s3 --scope s3:data/in/report.csv:read`,
	"ebb notify list":     `  ebb notify list --config /etc/ebb/ebb.yaml`,
	"ebb notify test":     `  ebb notify test oncall --config /etc/ebb/ebb.yaml`,
	"ebb migrate":         `  ebb migrate --check --config /etc/ebb/ebb.yaml`,
	"ebb doctor": `  ebb doctor
  ebb doctor --config /etc/ebb/ebb.yaml`,
	"ebb egress": `  ebb egress tsk_019a3f2c --dir /run/ebb-agent --network-namespace /proc/4711/ns/net`,
	"ebb health": `  ebb health --config /etc/ebb/ebb.yaml`,
	"ebb login": `  ebb login https://ebb.example.com --key ann.key
  ebb login https://ebb.test:8420 --name staging --ca-file ca.pem --key ann.key --client-id ann`,
	"ebb context list": `  ebb context list`,
	"ebb context use": `  ebb context use staging
  ebb context use local`,
	"ebb context show":   `  ebb context show staging`,
	"ebb context remove": `  ebb context remove staging`,
	"ebb version":        `  ebb version -o json`,
	"ebb help": `  ebb help task open
  ebb help environment`,
	"ebb completion bash":       `  ebb completion bash >/etc/bash_completion.d/ebb`,
	"ebb completion zsh":        `  ebb completion zsh >"${fpath[1]}/_ebb"`,
	"ebb completion fish":       `  ebb completion fish >~/.config/fish/completions/ebb.fish`,
	"ebb completion powershell": `  ebb completion powershell >ebb.ps1`,
}
