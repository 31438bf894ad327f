package tare_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// isCommand matches the first line of a block of commands. Other blocks are files or output.
var isCommand = regexp.MustCompile(`^(tare [a-z]|(bin/\S+|tare-\S+|make|go|git|sudo|docker|minisign|sha256sum|gh|curl|eval|kubectl|\(umask|[A-Z_]+=\S+ tare\S*) )`)

// printed are the lines of output in blocks of commands.
var printed = []string{"151.1 req/s with p90 < 500ms, errors < 0.1% (95 % interval 139.2 to 159.1)"}

// commandsOf are the commands of a page: the lines in its blocks, without comments and output, and the answers to questions.
func commandsOf(page string) (all []string) {
	for _, block := range blocksOf(page) {
		if !isCommand.MatchString(block[0]) {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(strings.Join(block, "\n"), "\\\n", " ")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
			line, _, _ = strings.Cut(line, " # ")
			if line = strings.Join(strings.Fields(line), " "); !slices.Contains(printed, line) {
				all = append(all, line)
			}
		}
	}
	for _, row := range question.FindAllString(page, -1) {
		for _, span := range tareSpan.FindAllStringSubmatch(row, -1) {
			all = append(all, span[1])
		}
	}
	return all
}

// question matches a row of a table of questions and their commands.
var question = regexp.MustCompile(`(?m)^\| [^|]*\? \| .*$`)

// blocksOf are the indented and fenced blocks of a page, as lines. A blank line ends an indented one: the next may be of
// another kind.
func blocksOf(page string) (all [][]string) {
	var block []string
	end := func() {
		if len(block) > 0 {
			all = append(all, block)
		}
		block = nil
	}
	blank, fenced := true, false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			fenced = !fenced
		case fenced && line != "":
			block = append(block, line)
		case indented && (blank || len(block) > 0):
			block = append(block, text)
		case !fenced:
			end()
		}
		blank = line == ""
	}
	end()
	return all
}

// done describes the run of a command of the pages. At most one of the texts is set: without any, it is run unchanged.
// A command with by or not is not run here.
type done struct {
	quick   bool   // it needs no other program, and less than a second: make test runs it
	add     string // is added to the command: shorter settings, or a dry run
	instead string // is run: the command with other names
	by      string // is the test that runs it, or reads the file that it names
	not     string // is the reason why no test runs it
}

const (
	isDryRun = "--dry-run >/dev/null"
	short    = "--plain --set blocks=1 --set phases.measure=1s"
	makes    = "a target of the Makefile, which the test looks for"
)

// documented has every command of the pages.
var documented = map[string]done{
	"tare run examples/soak.yaml --set phases.soak=1h": {
		instead: "tare plan examples/soak.yaml --set phases.soak=1h"},
	"tare services": {by: "TestServicesByHand"},
	"tare services --target server --patch '{\"delay\": \"250ms\"}'": {by: "TestServicesByHand"},
	"make quickstart":                  {not: makes},
	"make build":                       {not: makes},
	"export PATH=$PWD/bin:$PATH":       {not: "sets a variable of the shell"},
	"make test":                        {not: makes},
	"make e2e":                         {not: makes},
	"make lint":                        {not: makes},
	"make bench":                       {not: makes},
	"make build-kube":                  {not: makes},
	"make generators":                  {not: makes},
	"make cluster":                     {not: makes},
	"make cluster-down":                {not: makes},
	"bin/tare-cluster status":          {not: "no test runs it"},
	"bin/tare-cluster load-image FILE": {by: "TestKubernetesIstioForeign"},
	"bin/tare-cluster up --with istio && eval \"$(bin/tare-cluster env)\"":                                                                                            {not: "make e2e does it with run --with istio"},
	"bin/tare mesh install istio --kubeconfig \"$TARE_TEST_KUBECONFIG\" --charts \"$TARE_TEST_ISTIO_CHARTS\" --version \"$TARE_TEST_ISTIO_TAG\" --option envoy=stock": {by: "TestKubernetesIstioCommands"},
	"eval \"$(bin/tare-cluster env)\"": {not: "prints the variables that tare-cluster run sets"},
	"go test ./kube/internal/…":        {not: "make test does it"},
	"go tool -modfile=tools/go.mod gotestsum tool slowest --jsonfile bin/tests/e2e-others.json --threshold 20s": {not: "needs a report of make e2e"},

	"go install github.com/tare-mesh/tare/cmd/...@latest":                                          {by: "TestGoInstallAlone"},
	"kubectl krew install --manifest=tare-krew.yaml":                                               {not: "needs krew and a release; TestKrew reads the manifest"},
	"sudo apt install ./tare_0.1.0_amd64.deb":                                                      {by: "TestPackageOnDebian"},
	"minisign -Vm SHA256SUMS -P KEY":                                                               {by: "TestSignature"},
	"sha256sum --check --ignore-missing SHA256SUMS":                                                {by: "TestFilesAndChecksums"},
	"gh attestation verify FILE --repo tare-mesh/tare":                                             {not: "needs a release"},
	"docker load --input tare_0.1.0_image.tar":                                                     {not: "needs Docker; TestImages unpacks it"},
	"bin/tare run examples/route-change.yaml":                                                      {by: "TestRouteChange"},
	"make build test lint":                                                                         {not: makes},
	"make bench-load BENCHLOAD='-rounds 20 -only cpu,rate'":                                        {not: "measures for minutes"},
	"make bench-load":                                                                              {not: makes},
	"tare plan examples/quickstart.yaml":                                                           {quick: true},
	"tare plan examples/quickstart.yaml --set 'factors.rate=[100, 2000]' --for curve --within 10m": {quick: true},
	"tare run examples/quickstart.yaml --set 'factors.rate=[100, 220, 490, 1100, 2000]' --set blocks=9 --out runs/curve": {
		instead: "tare run examples/quickstart.yaml --set 'factors.rate=[100, 300, 900]' --set 'factors.connections=[4, 128]' --set blocks=3 --set phases.measure=1s --plain --out runs/curve || [ $? = 3 ]"},
	"tare size --from runs/curve --rate 800 --prices examples/prices-gcp.yaml": {
		instead: "tare size --from runs/curve --rate 800 --connections 4 --prices examples/prices-gcp.yaml"},
	"tare size --from runs/curve --rate 800 --format html -o size.html": {
		instead: "tare size --from runs/curve --rate 800 --connections 4 --format html -o size.html && grep -q 'To be more certain' size.html"},
	"tare size --from runs/curve --rate 800 --connections 100": {},
	"tare run examples/quickstart.yaml --set 'factors.rate=[50, 140, 370, 1000]' --set 'factors.responseSize=[500, 16KiB]' --set blocks=8 --out runs/for-shop": {
		instead: "tare run examples/quickstart.yaml --set 'factors.rate=[50, 220, 1000]' --set 'factors.responseSize=[500, 16KiB]' --set blocks=3 --set phases.measure=1s --plain --out runs/for-shop || [ $? = 3 ]"},
	"tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/for-shop --prices examples/prices-gcp.yaml": {},
	"tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/for-shop --format html -o forecast.html": {
		instead: "tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/for-shop --format html -o forecast.html && grep -q 'Sidecars of each service' forecast.html"},
	"tare run examples/quickstart.yaml --set application.topology=callers --set 'factors.rate=[10]' --set blocks=6 --out runs/callers": {
		instead: "tare run examples/quickstart.yaml --set application.topology=callers --set 'factors.rate=[10]' --set blocks=3 --set phases.measure=1s --set validity.rateShortfall=0.5 --plain --out runs/callers || [ $? = 3 ]"},
	"tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/for-shop runs/callers": {
		instead: "tare forecast --graph examples/graphs/shop.yaml --rate 300 --from runs/for-shop runs/callers --format json | grep -q 'services that a sidecar calls'"},
	"tare forecast --graph traces.json --rate 300 --from runs/for-shop": {by: "TestScripts"},
	"tare size --rate 800": {by: "TestScripts"},
	"kubectl get pods -A --no-headers -o custom-columns=NODE:.spec.nodeName > pods.txt":                                              {instead: "printf 'a\\na\\nb\\n' > pods.txt"},
	"tare size --from runs/istio-curve --namespace shop --prices examples/prices-gcp.yaml":                                           {by: "TestKubernetesIstioCommands"},
	"tare size --from runs/istio-curve --namespace shop --format patch | kubectl apply --server-side --field-manager tare-size -f -": {by: "TestKubernetesIstioCommands"},
	"tare size --from runs/ambient --rate 300 --pods pods.txt":                                                                       {not: "needs a curve of node proxies: TestSizesOfSharedProxies of internal/predict sizes one"},
	"bin/tare cluster adopt":                         {by: "TestKubernetesUninstallLooksAtNodes"},
	"bin/tare run experiment.yaml --out runs/values": {not: "needs Istio on a cluster; TestKubernetesIstioForeign measures a copied namespace under it"},
	"bin/tare size --from runs/values --rate 150": {
		instead: "bin/tare size --from runs/curve --rate 300 --connections 4 --objective 'p99 < 50ms'"},
	"bin/tare size --from runs/values --rate 150 --format values > sidecars.yaml": {
		instead: "bin/tare size --from runs/curve --rate 300 --connections 4 --objective 'p99 < 50ms' --format yaml > sidecars.yaml"},
	"helm upgrade istiod istio/istiod -n istio-system --reuse-values -f sidecars.yaml": {not: "needs Helm and an Istio that it installed"},
	"tare report":                       {instead: "tare report || [ $? = 2 ]"}, // the first has no run
	"tare run examples/quickstart.yaml": {add: short + " --out runs/quickstart-1"},
	"tare verify runs/quickstart-…":     {quick: true},
	"tare weigh --gateway nginx --gateway haproxy -- python3 -m http.server {port}": {
		instead: "tare weigh --plain --time 15s --rate 50 --gateway 'python3 examples/proxy.py {listen} {upstream}' -- python3 -m http.server {port}"},
	"tare weigh --gateway nginx --gateway envoy --gateway haproxy -- ./server {port}": {
		instead: "tare weigh --plain --time 15s --rate 50 --gateway 'python3 examples/proxy.py {listen} {upstream}' -- python3 -m http.server {port}"},
	"tare weigh --gateway './my-proxy {listen} {upstream}' -- ./server {port}": {
		instead: "tare weigh --plain --time 15s --rate 50 --gateway 'python3 examples/proxy.py {listen} {upstream}' -- python3 -m http.server {port}"},
	"tare weigh --gateway nginx --config nginx.conf -- ./server {port}": {by: "TestWeighOfGateways"},
	"tare weigh --gateway nginx --path /v1/chat/completions --data '{\"model\": \"tare\", \"stream\": true}' -- tare-agent completions --listen 127.0.0.1:{port}": {
		instead: "tare weigh --plain --time 15s --rate 20 --gateway 'python3 examples/proxy.py {listen} {upstream}' --path /v1/chat/completions --data '{\"stream\": true}' -- tare-agent completions --listen 127.0.0.1:{port} | grep 'gap between messages'"},
	"tare weigh --sidecar 'python3 examples/proxy.py {listen} {upstream}' -- python3 -m http.server {port}": {
		instead: "tare weigh --plain --time 15s --rate 50 --sidecar 'python3 examples/proxy.py {listen} {upstream}' -- python3 -m http.server {port}"},
	"tare load http://127.0.0.1:8080/ --rate 1000 --connections 16 --connection-rate 250":     {add: "-z 1s"},
	"tare load http://127.0.0.1:8080/ -r 500":                                                 {add: "-z 1s"},
	"tare weigh --env A=b -- ./server":                                                        {instead: "tare weigh --plain --time 15s --rate 100 --env A=b -- tare-agent serve --listen 127.0.0.1:{port}"},
	"tare ab -- ./server-old --port {port} -- ./server-new --port {port}":                     {by: "TestABRuns"},
	"git bisect run tare ab --bisect -- /good/server --port {port} -- ./server --port {port}": {by: "TestBisectOfPrograms"},
	"tare weigh --env NODE_OPTIONS='--require ./otel.js' -- node server.js":                   {by: "TestWeighOfVariants"},
	"tare weigh --prefix opentelemetry-instrument -- python3 app.py":                          {by: "TestWeighOfVariants"},
	"tare weigh -- python3 -m http.server {port}":                                             {instead: "tare weigh --plain --time 15s --rate 50 -- python3 -m http.server {port}"},
	"tare weigh --env PYTHONDEVMODE=1 -- python3 -m http.server {port}": {
		instead: "tare weigh --plain --time 15s --rate 50 --env PYTHONDEVMODE=1 -- python3 -m http.server {port}"},
	"tare ab --gate 'cpu_us_per_request/total < +5%' -- python3 -m http.server {port} -- python3 -O -m http.server {port}": {
		instead: "tare ab --plain --max-time 2m --undecided pass --rate 50 --gate 'cpu_us_per_request/total < +1000%' -- python3 -m http.server {port} -- python3 -O -m http.server {port}"},
	"tare run examples/reload.yaml":                                                {add: isDryRun},
	"tare run examples/soak.yaml":                                                  {add: isDryRun},
	"tare report --cost examples/prices.yaml":                                      {quick: true},
	"tare run examples/quickstart.yaml --set 'factors.rate=[100, 250, 500, 1100]'": {add: isDryRun},
	"tare forecast --graph examples/graphs/shop.yaml --rate 300": {
		instead: "tare forecast --graph examples/graphs/shop.yaml --rate 300 2>&1 | grep -q 'tare run examples/quickstart.yaml'"},
	"tare import fortio examples/fortio --out runs/fortio --report":             {quick: true},
	"tare ab -- ./old build -- ./new build":                                     {by: "TestABOfEndingPrograms"},
	"tare ab -- ./old.test -test.bench . -- ./new.test -test.bench .":           {by: "TestABOfGoBenchmarks"},
	"tare weigh --prefix 'strace -f -o /dev/null' -- gzip -kf big.json":         {by: "TestWeighOfEndingProgram"},
	"tare weigh --beside 'fluent-bit -c fluent.conf' -- ./server --port {port}": {by: "TestWeighOfVariants"},
	"tare ab --mesh envoy --program ./old --program ./new":                      {add: "--plain --max-time 2m --undecided pass --gate 'cpu_us_per_request/data < +1000%'"},
	"tare compare runs/nightly-* NEW":                                           {by: "TestScripts"},
	"tare doctor examples/quickstart.yaml":                                      {by: "TestDoctorRunsAnAA"},
	"tare doctor":                                                               {instead: "tare doctor || [ $? = 1 ]"},
	"tare list meshes":                                                          {quick: true},
	"tare cluster create --with kind && tare cluster image load --to kind:tare": {not: "needs kind; TestClusterIsCreatedAndMarked plays it"},
	"tare run examples/istio-kubernetes.yaml":                                   {add: isDryRun},

	"bin/tare report runs/quickstart-… --all":                                                                     {quick: true},
	"bin/tare verify runs/quickstart-…":                                                                           {quick: true},
	"bin/tare plan examples/quickstart.yaml --set blocks=20":                                                      {quick: true},
	"bin/tare run examples/quickstart.yaml --set blocks=20 --set phases.measure=15s":                              {add: short},
	"bin/tare run --resume runs/quickstart-…":                                                                     {add: "--plain"},
	"bin/tare cluster create --with kind":                                                                         {add: "--dry-run"},
	"bin/tare cluster image load --to kind:tare":                                                                  {not: "needs kind"},
	"bin/tare cluster status":                                                                                     {by: "TestKubernetesClusterCommands"},
	"bin/tare plan examples/istio-kubernetes.yaml":                                                                {quick: true},
	"bin/tare run examples/istio-kubernetes.yaml":                                                                 {add: isDryRun},
	"bin/tare run examples/istio-kubernetes.yaml --set 'factors.mesh=[none, linkerd, istio]' --set order=by-mesh": {add: isDryRun},
	"kind delete cluster --name tare":                                                                             {not: "needs kind"},
	"bin/tare cluster cleanup":                                                                                    {by: "TestKubernetesClusterCommands"},
	"bin/tare weigh -- python3 -m http.server {port}":                                                             {instead: "tare weigh --plain --time 15s --rate 50 -- python3 -m http.server {port}"},
	"bin/tare plan examples/own-application.yaml":                                                                 {quick: true},
	"bin/tare run examples/own-application.yaml":                                                                  {add: short},

	"tare plan examples/istio-linkerd-cpu.yaml":                                                               {quick: true},
	"tare run examples/istio-linkerd-cpu.yaml --set blocks=3 --set phases.measure=10s --set phases.warmup=2s": {by: "TestStudiesRun"},
	"tare cluster create --with k3d --nodes 3":                                                                {add: "--dry-run"},
	"tare cluster adopt": {by: "TestKubernetesUninstallLooksAtNodes"},
	"tare cluster image load --to registry --tag REGISTRY/tare-agent:v1":                                                                             {not: "needs a registry; TestPushForTwoArchitectures of internal/base/image has one"},
	"tare cluster image load --to k3d:tare":                                                                                                          {not: "needs k3d"},
	"tare cluster image load --to kind:tare --tag localhost/adder:1 --with adder=bin/adder":                                                          {not: "needs kind"},
	"tare run examples/to-sidecar-or-not.yaml --set platform.kind=kubernetes --set 'application={manifests: [adder/kubernetes.yaml], entry: adder}'": {add: isDryRun},
	"tare run examples/great-sidecar-debate.yaml --set platform.kind=local --set 'meshes={}' --set 'factors.mesh=[none, envoy-tcp, envoy]' --set 'factors.application=[faces]'": {
		instead: "tare plan examples/great-sidecar-debate.yaml --set platform.kind=local --set 'meshes={}' --set 'factors.mesh=[none, envoy-tcp, envoy]' --set 'factors.application=[faces]'"},
	"tare run examples/standard-weight.yaml --set blocks=12 --set phases.measure=15s --set 'platform.cpus={load: \"0\", app: \"1\", data: \"1\"}'": {by: "TestStandardWeight"},

	"tare run examples/findings/nginx-keepalive.yaml":      {instead: "tare plan examples/findings/nginx-keepalive.yaml"},
	"tare run examples/findings/dropped-runs.yaml":         {instead: "tare plan examples/findings/dropped-runs.yaml"},
	"tare run examples/findings/caddy-and-nginx.yaml":      {instead: "tare plan examples/findings/caddy-and-nginx.yaml"},
	"tare run examples/findings/mtls-negligible.yaml":      {instead: "tare plan examples/findings/mtls-negligible.yaml"},
	"tare run examples/findings/envoy-over-rate.yaml":      {instead: "tare plan examples/findings/envoy-over-rate.yaml"},
	"tare run examples/findings/envoy-extensions.yaml":     {instead: "tare plan examples/findings/envoy-extensions.yaml"},
	"tare run examples/findings/opentelemetry-python.yaml": {instead: "tare plan examples/findings/opentelemetry-python.yaml"},
	"tare run examples/findings/llm-gateway.yaml":          {instead: "tare plan examples/findings/llm-gateway.yaml"},
	"tare run examples/findings/sidecar-call.yaml":         {instead: "tare plan examples/findings/sidecar-call.yaml"},
	"tare run examples/findings/envoy-releases.yaml":       {instead: "tare plan examples/findings/envoy-releases.yaml"},
	"tare report DIR --baseline route=/adder-with-sidecar": {not: "needs the results of the finding's run"},
	"go run ./test/findings":                               {not: "TestPagesHaveTheRuns does it"},
	"make proxies VERSIONS='nginx=/opt/nginx/sbin/nginx'":  {not: "measures for minutes"},

	"tare import great-sidecar-debate V1/Data/ambient V1/Data/linkerd --out runs/debate --report": {quick: true},
	"tare report runs/debate --baseline mesh=linkerd":                                             {quick: true},
	"tare run examples/great-sidecar-debate.yaml":                                                 {by: "TestStudiesRun"},
	"tare report --attribution great-sidecar-debate":                                              {instead: "tare report runs/debate --attribution great-sidecar-debate", quick: true},
	"tare report runs/debate --method as-published":                                               {quick: true},

	"tare cluster rbac --subject user:jo | kubectl apply -f -":                                                                                                        {instead: "tare cluster rbac --subject user:jo"},
	"tare cluster rbac --namespace bench --subject serviceaccount:ci/tare":                                                                                            {},
	"tare load http://127.0.0.1:8080/ --rate 1000 --duration 10s --connections 16":                                                                                    {add: "--duration 1s"},
	"tare load http://127.0.0.1:18080/ --find-max 'p90 < 500ms, errors < 0.1%' -z 4s":                                                                                 {by: "TestFindMax"},
	"tare load grpc://127.0.0.1:50051/shop.Cart/Add --data @message.bin -r 200":                                                                                       {by: "TestLoadGRPC"},
	`tare load tcp://127.0.0.1:6379 --data $'PING\r\n' --expect-body $'+PONG\r\n' -r 500`:                                                                             {by: "TestLoadTCP"},
	`tare weigh --protocol tcp --data $'PING\r\n' --expect-body $'+PONG\r\n' --gateway haproxy --gateway envoy-tcp -- redis-server --port {port} --protected-mode no`: {by: "TestRedisBehindProxies"},
	"tare load ws://127.0.0.1:8080/chat --data hello -r 500":                                                                                                          {by: "TestLoadWebSocket"},

	"tare mesh list":                          {},
	"tare mesh install istio --profile ha":    {not: "TestKubernetesIstioCommands installs the default profile: three replicas need three nodes"},
	"tare mesh verify istio --namespace shop": {by: "TestKubernetesIstioCommands"},
	"tare mesh uninstall istio":               {by: "TestKubernetesIstioCommands"},

	"tare-agent serve --listen 127.0.0.1:8080 --response-size 1KiB --admin 127.0.0.1:9000 --token-file token": {
		instead: "(umask 077; openssl rand -hex 16 > token); timeout 1 tare-agent serve --listen 127.0.0.1:0 --response-size 1KiB --admin 127.0.0.1:0 --token-file token || [ $? = 124 ]"},
	"tare-agent serve --listen 127.0.0.1:8081 --time 'lognormal(10ms, 0.5)' --cpu 100us --call back=http://127.0.0.1:8080/": {
		instead: "timeout 1 tare-agent serve --listen 127.0.0.1:0 --time 'lognormal(10ms, 0.5)' --cpu 100us --call back=http://127.0.0.1:8080/ || [ $? = 124 ]"},
	"(umask 077; openssl rand -hex 16 > token)": {},
	"curl http://127.0.0.1:9000/config":         {not: "the next one calls the same server"},
	"curl -X PATCH -H \"Authorization: Bearer $(cat token)\" -H 'Content-Type: application/merge-patch+json' -d '{\"delay\": \"250ms\", \"errors\": {\"ratio\": 0.1, \"status\": 503}}' http://127.0.0.1:9000/config": {
		instead: served + `curl -sf --retry 30 --retry-all-errors http://127.0.0.2:19000/config && ` +
			`curl -sf -X PATCH -H "Authorization: Bearer $(cat token)" -H 'Content-Type: application/merge-patch+json' -d '{"delay": "250ms", "errors": {"ratio": 0.1, "status": 503}}' http://127.0.0.2:19000/config`},

	"tare ab --mesh istio --set b.options.accessLog=true --gate 'cpu_us_per_request/data < +25%' --detect 10% --max-time 15m": {not: "no test runs tare ab on a cluster: TestABRuns runs it with processes"},
	"tare weigh --namespace shop --entry web --mesh istio":                                                                    {not: "no test runs tare weigh on a cluster: TestKubernetesInterleaved measures an application of the cluster in place"},
	"bin/benchload -help":                    {not: "prints the options"},
	"go test . -run TestMetricsPage -update": {by: "TestContributingBuilds"},
	"go test ./internal/run/generator -run TestThePageHasEveryMeaning -update": {by: "TestContributingBuilds"},
	"go test ./kube/internal/cli/kubecli -run TestReferencePage -update":       {by: "TestContributingBuilds"},
	"git bisect start BAD GOOD": {not: "needs a repository with a bad commit"},
	"git bisect run sh -c 'make proxy || exit 125; tare ab --bisect --mesh envoy --program /good/proxy --program bin/proxy'": {not: "TestBisectExitCodes has its exit codes"},
}

// served starts a service for the rest of a script.
const served = `tare-agent serve --listen 127.0.0.2:0 --admin 127.0.0.2:19000 --token-file token & trap "kill $!" EXIT; `

// namesOf are the pages with commands for users and contributors. Lab notes are of the tare of their day.
func namesOf(t *testing.T) (names []string) {
	for name := range pages(t) {
		if !strings.HasPrefix(name, "docs/lab/") && name != "CHANGELOG.md" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var testName = regexp.MustCompile(`Test\w+`)

// Each command of the pages is known, and each exception has a reason that holds.
func TestCommandBlocks(t *testing.T) {
	all, seen := pages(t), map[string]bool{}
	makefile := must.Get(os.ReadFile("Makefile"))(t)
	for _, name := range namesOf(t) {
		for _, command := range commandsOf(all[name]) {
			seen[command] = true
			d, known := documented[command]
			if !known {
				t.Errorf("%s: `%s` is not run by TestCommandsRun: add it to documented", name, command)
			}
			if targets, is := strings.CutPrefix(command, "make "); is && d.not == makes {
				for _, target := range strings.Fields(targets) {
					if !strings.Contains(string(makefile), "\n"+target+":") {
						t.Errorf("%s: the Makefile has no target %s", name, target)
					}
				}
			}
		}
	}
	var names []string
	for _, d := range documented {
		names = append(names, testName.FindAllString(d.by+" "+d.not, -1)...)
	}
	tests, subcommands := testsOfRepository(t, append(names, "TestKubernetesStudies", "TestKubernetesIstio")), reference(t)
	for command, d := range documented {
		if !seen[command] {
			t.Errorf("no page has `%s`", command)
		}
		for _, name := range testName.FindAllString(d.by+" "+d.not, -1) {
			if tests[name] == "" {
				t.Errorf("`%s`: there is no %s", command, name)
			}
		}
		if d.by != "" && !runs(subcommands, tests[d.by], command) {
			t.Errorf("`%s`: %s has neither its subcommand nor its file", command, d.by)
		}
	}
	if runs(subcommands, tests["TestKubernetesStudies"], "tare run examples/great-sidecar-debate.yaml") || runs(subcommands, tests["TestKubernetesIstio"], "tare mesh verify istio") {
		t.Error("any test is accepted for a command")
	}
}

var exampleFile = regexp.MustCompile(`examples/([a-z0-9-]+)\.yaml`)

// runs reports whether the text of a test contains the example that a command names, or else its subcommand: as arguments, as
// the name of a function, or as a line of a script.
func runs(subcommands map[string]map[string]bool, test, command string) bool {
	if m := exampleFile.FindStringSubmatch(command); m != nil {
		return strings.Contains(test, m[1])
	}
	for _, call := range callsOf(command) {
		words := call[1:min(2, len(call))]
		if len(call) > 2 && subcommands[call[1]+" "+call[2]] != nil {
			words = call[1:3]
		}
		if !strings.HasPrefix(strings.TrimPrefix(call[0], "bin/"), "tare") {
			continue
		}
		joined := strings.ReplaceAll(strings.Join(words, ""), "-", "")
		if !strings.Contains(test, `"`+strings.Join(words, `", "`)+`"`) && !strings.Contains(strings.ToLower(test), joined+"command(") &&
			!strings.Contains(strings.ToLower(test), "."+joined+"(") && !strings.Contains(test, "tare "+strings.Join(words, " ")+" ") {
			return false
		}
	}
	return true
}

var (
	function = regexp.MustCompile(`(?m)^func (?:\(.*?\) )?(\w+)\((?:.*\}$|(?s:.*?)^\})`)
	called   = regexp.MustCompile(`\b(\w+)\(`)
)

// testsOfRepository are tests by name: the text of each, of the functions in the tests of its package that it calls, and
// of the scripts that it runs.
func testsOfRepository(t *testing.T, names []string) map[string]string {
	t.Helper()
	packages := map[string]map[string]string{}
	for _, root := range []string{"contributing_test.go", "internal", "cmd", "kube", "test"} {
		must.OK(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			dir := filepath.Dir(path)
			if packages[dir] == nil {
				packages[dir] = map[string]string{}
			}
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				packages[dir][m[1]] = m[0]
			}
			return err
		}))
	}
	tests := map[string]string{}
	for dir, functions := range packages {
		var text func(name string, seen map[string]bool) string
		text = func(name string, seen map[string]bool) string {
			all := functions[name]
			seen[name] = true
			for _, m := range called.FindAllStringSubmatch(all, -1) {
				if !seen[m[1]] && !strings.HasPrefix(m[1], "Test") {
					all += text(m[1], seen)
				}
			}
			return all
		}
		for name := range functions {
			if slices.Contains(names, name) {
				tests[name] += text(name, map[string]bool{})
			}
		}
		scripts := must.Get(filepath.Glob(filepath.Join(dir, "testdata", "script", "*.txtar")))(t)
		for _, script := range scripts {
			b := must.Get(os.ReadFile(script))(t)
			tests["TestScripts"] += string(b)
		}
	}
	return tests
}

// The commands run in the order of the pages, in a directory with the examples, a server and two builds of Envoy.
func TestCommandsRun(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("runs experiments for minutes: make e2e-all runs it")
	}
	dir, bin := scratch(t)
	all := pages(t)
	for _, name := range namesOf(t) {
		for _, command := range commandsOf(all[name]) {
			d := documented[command]
			if d.by != "" || d.not != "" {
				continue
			}
			run := strings.TrimSpace(command + " " + d.add)
			if d.instead != "" {
				run = d.instead
			}
			t.Run(name+": "+command, func(t *testing.T) { shell(t, dir, bin, run) })
		}
	}
}

// scratch makes the working directory and the directory of the programs.
func scratch(t *testing.T) (dir, bin string) {
	t.Helper()
	dir, bin = t.TempDir(), t.TempDir()
	must.OK(t, programtest.Build(bin, "tare", "tare-agent", "tare-kube"))
	envoy, err := fetch.Envoy().Find(t.Context(), fetch.Options{})
	if err != nil {
		t.Skipf("needs Envoy: %v", err)
	}
	must.OK(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("examples")))
	for link, to := range map[string]string{"bin": bin, "old": envoy.Path, "new": envoy.Path} {
		must.OK(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for _, mesh := range []string{"linkerd", "ambient"} {
		debatetest.Sequence{Mesh: mesh, First: 1}.Write(t, filepath.Join(dir, "V1", "Data"))
	}
	return dir, bin
}

// shell runs a command with the names of the scratch directory.
func shell(t *testing.T, dir, bin, command string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	defer server.Close()
	command = strings.NewReplacer("http://127.0.0.1:8080", server.URL, "runs/quickstart-…", "runs/quickstart-1", " NEW", " runs/quickstart-1").Replace(command)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what the command starts ends with it, and does not hold its output open
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(dir, "none"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 3 { // some trials of a short run on a busy machine are invalid
		t.Errorf("%s: %v\n%s", command, err, out.String())
	}
}
