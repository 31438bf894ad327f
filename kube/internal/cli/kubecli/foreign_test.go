package kubecli

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Images of programs that tare did not write: Debian's nginx and redis, Node.js, etcd, and podinfo.
const (
	nginxImage = "tare.test/nginx:1"
	nodeImage  = "tare.test/node:1"
	etcdImage  = "tare.test/etcd:1"
	redisImage = "tare.test/redis:1"

	podinfoImage = "tare.test/podinfo" // without a tag
)

// loadForeign makes an image of programs, by their paths in it, with their shared libraries, and loads it onto the node.
func loadForeign(t *testing.T, reference string, programs map[string]string) {
	t.Helper()
	files := maps.Clone(programs)
	for _, path := range programs {
		ldd := exec.Command("ldd", path) // fails for a static program
		ldd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(serversDir(t), "usr/lib/x86_64-linux-gnu"))
		out, _ := ldd.CombinedOutput()
		for _, m := range regexp.MustCompile(`(?m)^\s*(\S+)(?: => (/\S+))? \(0x`).FindAllStringSubmatch(string(out), -1) {
			switch {
			case m[2] != "":
				files["lib/x86_64-linux-gnu/"+filepath.Base(m[1])] = m[2]
			case strings.HasPrefix(m[1], "/"): // the dynamic linker
				files[strings.TrimPrefix(m[1], "/")] = m[1]
			}
		}
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for to, from := range files {
		content := must.Get(os.ReadFile(from))(t)
		must.OK(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		must.Get(w.Write(content))(t)
	}
	must.OK(t, w.Close())
	l := must.Get(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }))(t)
	image := must.Get(mutate.AppendLayers(empty.Image, l))(t)
	config := must.Get(image.ConfigFile())(t)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	image = must.Get(mutate.ConfigFile(image, config))(t)
	tag := must.Get(name.NewTag(reference))(t)
	archive := filepath.Join(t.TempDir(), "image.tar")
	must.OK(t, tarball.WriteToFile(archive, tag, image))
	if out, err := exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "load-image", archive).CombinedOutput(); err != nil {
		t.Fatalf("load %s: %v: %s", reference, err, out)
	}
}

// serversDir has the programs that tools/servers/install.sh unpacks.
func serversDir(t *testing.T) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	return filepath.Join(cache, "tare", "servers")
}

// shopManifests are an application as others write it: nginx, a StatefulSet of Node.js and redis, for a namespace of its own.
const shopManifests = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data:
  nginx.conf: |
    pid /tmp/nginx.pid;
    error_log stderr;
    events {}
    http {
      access_log off;
      client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f; uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
      server {
        listen 8080;
        location / { proxy_http_version 1.1; proxy_pass http://api.shop.svc.cluster.local:3000; }
        location /ready { return 204; }
      }
    }
---
apiVersion: v1
kind: ConfigMap
metadata: {name: api, namespace: shop}
data:
  server.js: |
    const net = require("node:net"), waiting = [];
    let redis;
    (function connect() {
      redis = net.connect(6379, "hits.shop.svc.cluster.local").on("error", console.error);
      redis.on("data", (b) => { for (const n of b.toString().match(/\d+/g)) waiting.shift().end(JSON.stringify({hits: +n})); });
      redis.on("close", () => { for (const s of waiting.splice(0)) s.writeHead(503).end(); setTimeout(connect, 200); });
    })();
    require("node:http").createServer((q, s) => {
      if (redis.readyState !== "open") return s.writeHead(503).end();
      waiting.push(s);
      redis.write("INCR hits\r\n");
    }).listen(3000);
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: api}, ports: [{name: http, port: 3000}]}
---
apiVersion: v1
kind: Service
metadata: {name: hits, namespace: shop}
spec: {selector: {app: hits}, ports: [{name: redis, port: 6379}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hits, namespace: shop}
spec:
  selector: {matchLabels: {app: hits}}
  template:
    metadata: {labels: {app: hits}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsUser: 65532}
      containers:
      - name: redis
        image: ` + redisImage + `
        imagePullPolicy: Never
        command: [/bin/redis-server, --save, "", --protected-mode, "no", --dir, /tmp]
        readinessProbe: {periodSeconds: 1, tcpSocket: {port: 6379}}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {linkerd.io/inject: enabled}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsUser: 65532}
      containers:
      - name: nginx
        image: ` + nginxImage + `
        imagePullPolicy: Never
        command: [/nginx, -c, /etc/web/nginx.conf, -g, "daemon off;"]
        readinessProbe: {periodSeconds: 1, httpGet: {path: /ready, port: 8080}}
        volumeMounts: [{name: config, mountPath: /etc/web}, {name: tmp, mountPath: /tmp}]
      volumes: [{name: config, configMap: {name: web}}, {name: tmp, emptyDir: {}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: api, namespace: shop}
spec:
  serviceName: api
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsUser: 65532}
      containers:
      - name: node
        image: ` + nodeImage + `
        imagePullPolicy: Never
        command: [/node, /etc/api/server.js]
        readinessProbe: {periodSeconds: 1, tcpSocket: {port: 3000}}
        volumeMounts: [{name: script, mountPath: /etc/api}]
      volumes: [{name: script, configMap: {name: api}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
`

// etcdChart is a chart with a StatefulSet of a gRPC server, and a hook.
var etcdChart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: store\nversion: 1.0.0\n",
	"values.yaml": "toolbox: \"\"\n",
	"templates/objects.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: prepare, annotations: {helm.sh/hook: pre-install}}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: prepare, image: {{ .Values.toolbox }}, imagePullPolicy: Never, command: [sh, -c, "echo prepared"]}]}
---
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {selector: {app: store}, ports: [{name: grpc, port: 2379}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsUser: 65532}
      containers:
      - name: etcd
        image: ` + etcdImage + `
        imagePullPolicy: Never
        command: [/etcd, --data-dir=/data/etcd, "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://store:2379"]
        readinessProbe: {periodSeconds: 1, tcpSocket: {port: 2379}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
`,
}

// foreignExperiment has short phases: its deployment and its verification matter.
const foreignExperiment = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: %s}
platform: {kind: kubernetes, kubeconfig: %q, image: %q, inUse: allow}
application: %s
meshes:
  istio: {version: %q, charts: %q, options: {envoy: stock}}
factors: {mesh: [%s], rate: [20], connections: [4]%s}
phases: {warmup: 4s, measure: 10s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`

// foreign is a cluster with images of programs of others.
type foreign struct {
	kubeconfig, charts, bin, image string
	cluster                        *cluster.Cluster
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{image: "tare.test/tare-agent:foreign"}
	f.kubeconfig, f.charts = clusterWithIstio(t)
	f.bin = agentInCluster(t, f.image)
	node := must.Get(exec.LookPath("node"))(t)
	loadForeign(t, nginxImage, map[string]string{"nginx": filepath.Join(serversDir(t), "usr/sbin/nginx")})
	loadForeign(t, nodeImage, map[string]string{"node": node})
	loadForeign(t, redisImage, map[string]string{"bin/redis-server": filepath.Join(serversDir(t), "usr/bin/redis-server"),
		"bin/redis-cli": filepath.Join(serversDir(t), "usr/bin/redis-cli")})
	loadForeign(t, etcdImage, map[string]string{"etcd": filepath.Join(filepath.Dir(os.Getenv("TARE_TEST_KUBECTL")), "kube")})
	f.cluster = must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: f.kubeconfig}))(t)
	return f
}

func (f *foreign) file(t *testing.T, kubeconfig, title, application, meshes, factors string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), title+".yaml")
	text := fmt.Sprintf(foreignExperiment, title, kubeconfig, f.image, application, os.Getenv("TARE_TEST_ISTIO_TAG"), f.charts, meshes, factors)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run runs an experiment and requires valid trials.
func (f *foreign) run(t *testing.T, file string) ([]result.Record, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	out, err := exec.Command(filepath.Join(f.bin, "tare"), "run", file, "--plain", "--out", dir).CombinedOutput()
	t.Logf("%s", out)
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && exit.ExitCode() == console.Incomplete) {
		t.Errorf("run: %v, want exit code %d", err, console.Done)
	}
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	records, err := d.Records()
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if !usable(r) {
			t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
		}
	}
	return records, dir
}

// limited returns a kubeconfig of a service account with the permissions that `cluster rbac --for` prints.
func (f *foreign) limited(t *testing.T, file string) string {
	t.Helper()
	return limitedAccount(t, f.cluster, f.kubeconfig, f.bin, "--for", file)
}

// limitedAccount returns a kubeconfig of a service account with the permissions that `cluster rbac` prints.
func limitedAccount(t *testing.T, c *cluster.Cluster, kubeconfig, bin string, args ...string) string {
	t.Helper()
	const account = "limited"
	out, err := exec.Command(filepath.Join(bin, "tare"), append([]string{"cluster", "rbac", "--subject", "serviceaccount:default/" + account}, args...)...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	stamp := cluster.Stamp{Run: "test-" + account}
	objects := must.Get(cluster.Parse(out))(t)
	refs := []cluster.Ref{{Kind: cluster.KindServiceAccount, Namespace: "default", Name: account}}
	must.OK(t, c.Apply(t.Context(), stamp, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account}}))
	for _, o := range objects {
		ref := must.Get(cluster.RefOf(o))(t)
		refs = append(refs, ref)
		must.OK(t, c.Apply(t.Context(), stamp, o))
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), nil, refs...); err != nil {
			t.Error(err)
		}
	})
	token := must.Get(c.Typed().CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	config := must.Get(clientcmd.LoadFromFile(kubeconfig))(t)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, clientcmd.WriteToFile(*config, path))
	return path
}

// Applications that tare did not write run under Istio, with only the permissions that are printed for them. They come
// from a manifest, and from a chart with a hook, a StatefulSet and gRPC. The copy of a namespace leaves the original
// as it is.
func TestKubernetesIstioForeign(t *testing.T) {
	f := newForeign(t)
	before := objectsIn(t, f.cluster)
	manifests := must.File(t, t.TempDir(), "shop.yaml", shopManifests)
	t.Run("manifests", func(t *testing.T) {
		application := fmt.Sprintf("{manifests: [%q], entry: web}", manifests)
		account := f.limited(t, f.file(t, f.kubeconfig, "shop", application, "istio", ""))
		records, dir := f.run(t, f.file(t, account, "shop", application, "istio", ""))
		for _, r := range records {
			apps := map[string]int{}
			for _, task := range r.Tasks {
				if task.Plane == metric.App {
					apps[task.Service+"/"+task.Container]++
				}
			}
			if len(apps) != 3 {
				t.Errorf("%s: applications %v", r.ID, apps)
			} else if d := difftest.Of(`apps["web/nginx"]`, apps["web/nginx"], 1, `apps["api/node"]`, apps["api/node"], 1, `apps["hits/redis"]`, apps["hits/redis"], 1); d != "" {
				t.Errorf("%s: %s: applications %v", d, r.ID, apps)
			}
			if got := sidecarsOf(r); got != 4 {
				t.Errorf("%s: %d sidecars", r.ID, got)
			}
			verifiedAs(t, r, true)
		}
		found, err := filepath.Glob(filepath.Join(dir, result.TrialsDir, "*-istio-*", result.ProvenanceDir, "calls.yaml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		must.Contain(t, string(must.Get(os.ReadFile(found[0]))(t)), "{name: web, calls: [api]}")
	})
	t.Run("namespace", func(t *testing.T) { f.copies(t) })
	t.Run("chart", func(t *testing.T) {
		dir := t.TempDir()
		for file, text := range etcdChart {
			must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		application := fmt.Sprintf("{chart: {chart: %q, port: 2379, values: 'toolbox: %s'}, services: [{name: store, protocol: grpc}]}", dir, os.Getenv("TARE_TEST_TOOLBOX"))
		mesh, sidecars := "none", 0
		if os.Getenv("TARE_TEST_ALL") != "" { // Istio is installed once more
			mesh, sidecars = "istio", 2
		}
		account := f.limited(t, f.file(t, f.kubeconfig, "store", application, mesh, ", protocol: [grpc]"))
		records, _ := f.run(t, f.file(t, account, "store", application, mesh, ", protocol: [grpc]"))
		if got := sidecarsOf(records[0]); got != sidecars {
			t.Errorf("%d sidecars, want %d", got, sidecars)
		}
	})
	nothingAdded(t, f.cluster, before)
}

// copies runs the application in a namespace of its own, and measures a copy.
func (f *foreign) copies(t *testing.T) {
	objects := must.Get(cluster.Parse([]byte(shopManifests)))(t)
	stamp := cluster.Stamp{Run: "test-shop", Foreign: true}
	for _, o := range objects {
		must.OK(t, f.cluster.Apply(t.Context(), stamp, o))
	}
	shop := cluster.Ref{Kind: cluster.KindNamespace, Name: "shop"}
	defer func() {
		if err := f.cluster.Delete(t.Context(), nil, shop); err != nil {
			t.Error(err)
		}
	}()
	for _, ref := range []cluster.Ref{{Kind: cluster.KindDeployment, Namespace: "shop", Name: "web"}, {Kind: cluster.KindStatefulSet, Namespace: "shop", Name: "api"}} {
		must.OK(t, f.cluster.WaitReady(t.Context(), nil, ref))
	}
	versions := func() (all []string) {
		for _, ref := range []cluster.Ref{shop, {Kind: cluster.KindDeployment, Namespace: "shop", Name: "web"}, {Kind: cluster.KindService, Namespace: "shop", Name: "web"},
			{Kind: cluster.KindConfigMap, Namespace: "shop", Name: "web"}} {
			o := must.Get(f.cluster.Get(t.Context(), ref))(t)
			all = append(all, o.GetResourceVersion())
		}
		return all
	}
	before := versions()
	records, _ := f.run(t, f.file(t, f.kubeconfig, "copy", "{namespace: shop, entry: web}", "none", ""))
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("the original was changed: %v, then %v", before, after)
	}
	for _, r := range records {
		if !slices.ContainsFunc(r.Tasks, func(task result.TaskUsage) bool { return task.Plane == metric.App && task.Service == "api" }) {
			t.Errorf("%s: no task of api: %+v", r.ID, r.Tasks)
		}
	}
}

// podinfoModule is a Go program with its authors' own chart: HTTP and gRPC ports, and redis as cache.
const podinfoModule, podinfoVersion = "github.com/stefanprodan/podinfo", "v1.8.1-0.20250910200901-e86405a8674e"

// A chart as its authors publish it runs under Istio, with images built from its module and from Debian's redis.
func TestKubernetesIstioPodinfo(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("builds podinfo: make e2e-all runs it")
	}
	f := newForeign(t)
	dir := t.TempDir()
	download := exec.Command("go", "mod", "download", "-json", podinfoModule+"@"+podinfoVersion)
	install := exec.Command("go", "install", podinfoModule+"/cmd/podinfo@"+podinfoVersion, podinfoModule+"/cmd/podcli@"+podinfoVersion)
	install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{download, install} {
		cmd.Dir = dir
	}
	out, err := download.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var module struct{ Dir string }
	must.OK(t, json.Unmarshal(out, &module))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	loadForeign(t, podinfoImage+":1", map[string]string{"podinfo": filepath.Join(dir, "podinfo"), "bin/podcli": filepath.Join(dir, "podcli")})
	application := fmt.Sprintf(`{chart: {chart: %q, release: podinfo, port: 9898, values: "image: {repository: %s, tag: '1', pullPolicy: Never}\nredis: {enabled: true, repository: tare.test/redis, tag: '1'}"}, services: [{name: podinfo}, {name: podinfo-redis, protocol: tcp}], entry: podinfo}`,
		filepath.Join(module.Dir, "charts", "podinfo"), podinfoImage)
	account := f.limited(t, f.file(t, f.kubeconfig, "podinfo", application, "istio", ", route: [/api/info]"))
	records, _ := f.run(t, f.file(t, account, "podinfo", application, "istio", ", route: [/api/info]"))
	for _, r := range records {
		verifiedAs(t, r, true)
		if got := sidecarsOf(r); got != 3 {
			t.Errorf("%s: %d sidecars", r.ID, got)
		}
	}
}
