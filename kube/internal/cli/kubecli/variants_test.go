package kubecli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// A patch adds a container beside a deployment of the user. It is verified in every pod, counts as plane data by its name,
// and its cost is the difference to the application without it. A variant of that variant has an image and a JSON patch too.
func TestKubernetesApplicationVariants(t *testing.T) {
	clustertest.Kubeconfig(t)
	manifests := must.File(t, t.TempDir(), "desk.yaml", deskObjects)
	r := experimentOnKubernetes(t, `
application: {manifests: ['`+manifests+`'], entry: front}
applications:
  plain: {}
  busy:
    patches:
      - target: {kind: Deployment, name: front}
        patch: |
          spec:
            template:
              spec:
                containers:
                  - name: shipper
                    image: '`+os.Getenv("TARE_TEST_TOOLBOX")+`'
                    imagePullPolicy: Never
                    command: [/bin/busybox, sh, -c, "while :; do for i in 0 1 2 3 4 5 6 7 8 9; do echo $i; done; sleep 0.02; done >/dev/null"]
  again:
    from: busy
    images: {shipper: '`+os.Getenv("TARE_TEST_TOOLBOX")+`'}
    patches:
      - target: {kind: StatefulSet}
        patch: '[{op: add, path: /spec/template/metadata/annotations, value: {example.test/patched: "yes"}}]'
factors: {application: [plain, again], mesh: [none], rate: [50], connections: [2]}
load: {arrivals: constant}
phases: {warmup: 2s, measure: 4s, drain: 1s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
seed: 1
blocks: 1
`)
	for _, record := range r.records(t, console.Done, nil) {
		if !usable(record) {
			t.Errorf("%s: %s%+v", record.ID, record.Error, record.Warnings)
		}
		used, tasks := usedBy(record, metric.Data)
		if want := map[bool]int{true: 1}[record.Treatment != "plain"]; tasks != want || want > 0 && used == 0 {
			t.Errorf("%s: %d tasks of plane data used %d ns, want %d tasks: %+v", record.ID, tasks, used, want, record.Tasks)
		}
		if _, tasks := usedBy(record, metric.App); tasks != 2 {
			t.Errorf("%s: %d tasks of the application", record.ID, tasks)
		}
		if !slices.ContainsFunc(record.Checks, func(c check.Check) bool { return c.Name == "containers" && c.OK }) {
			t.Errorf("%s: containers are not verified: %+v", record.ID, record.Checks)
		}
		pods, err := os.ReadFile(must.Get(filepath.Glob(filepath.Join(r.dir, "trials", record.ID, "provenance", "pods.yaml")))(t)[0])
		if patched := strings.Contains(string(pods), "example.test/patched"); err != nil || patched != (record.Treatment == "again") {
			t.Errorf("%s: %v, the JSON patch is in its pods: %v", record.ID, err, patched)
		}
	}
	out, err := exec.Command(filepath.Join(r.bin, "tare"), slices.Concat([]string{"plan", r.args[1]}, r.args[5:])...).CombinedOutput() // --set
	if err != nil || !strings.Contains(string(out), "variant again: busy with images.shipper="+os.Getenv("TARE_TEST_TOOLBOX")+", patch of StatefulSet") {
		t.Errorf("%v\n%s", err, out)
	}
}

// deskObjects are an application in a namespace of its own. Its containers listen where the test's proxy sends requests.
const deskObjects = `apiVersion: v1
kind: Namespace
metadata: {name: desk, labels: {team: desk}}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: desk}
spec: {selector: {app: front}, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: back, namespace: desk}
spec: {selector: {app: back}, ports: [{name: http, port: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: desk}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}, annotations: {kept: "yes"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: "` + kubernetesImage + `", imagePullPolicy: Never, args: [serve, --listen, ":8080", --call, "back=http://back:8080/"], readinessProbe: {periodSeconds: 1, tcpSocket: {port: 8080}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: back, namespace: desk}
spec:
  serviceName: back
  selector: {matchLabels: {app: back}}
  template:
    metadata: {labels: {app: back}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: "` + kubernetesImage + `", imagePullPolicy: Never, args: [serve, --listen, ":8080"], readinessProbe: {periodSeconds: 1, tcpSocket: {port: 8080}}}]
`
