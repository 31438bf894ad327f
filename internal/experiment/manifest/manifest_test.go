package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func read(t *testing.T, paths ...string) *Set {
	t.Helper()
	s := must.Get(Read(paths...))(t)
	return s
}

func find(t *testing.T, s *Set, kind, name string) Object {
	t.Helper()
	for _, o := range s.Objects {
		if o.kind() == kind && o.name() == name {
			return o
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// Services, their ports and protocols are found. Dependencies come first.
func TestServices(t *testing.T) {
	s := read(t, "testdata/shop")
	want := []Service{{"api", 8080, "grpc"}, {"cache", 6379, "tcp"}, {"web", 80, "http1"}}
	if !reflect.DeepEqual(s.Services, want) || s.Namespace != "shop" {
		t.Errorf("%+v in %q", s.Services, s.Namespace)
	}
	var order []string
	for _, o := range s.Objects {
		order = append(order, o.String())
	}
	if got := strings.Join(order, ", "); got != "ServiceAccount web, ConfigMap settings, RoleBinding web, Service api, Service cache, Service bank, Service web, StatefulSet cache, Deployment web" {
		t.Error(got)
	}
}

// What a trial lacks is listed with a way out, and what it has is not.
func TestNotes(t *testing.T) {
	s := read(t, "testdata/shop")
	var all []string
	for _, n := range s.Notes {
		all = append(all, n.String())
	}
	got := strings.Join(all, "\n")
	must.Contain(t, got, "Ingress web: not applied: the load is sent to the entry's Service",
		"ClusterRole web: not applied: it is outside the trial's namespace",
		"StatefulSet cache: its volumes data are created empty in each trial, without data",
		"Service bank: its address bank.example.com is outside the trial",
		"Deployment web: its pods need Secret login, which is not among the objects",
		"Deployment web: args has the address bank.example.com, outside the application",
		"Deployment web: annotations linkerd.io/inject removed")
	if len(all) != 7 {
		t.Errorf("%d notes:\n%s", len(all), got)
	}
	if f := s.Fatal(); len(f) != 1 || !strings.Contains(f[0].Text, "Secret login") || f[0].Hint == "" {
		t.Errorf("%+v", f)
	}
}

// Fields that belong to one object of one cluster are removed, and texts are as written.
func TestClean(t *testing.T) {
	s := read(t, "testdata/shop")
	web := find(t, s, "Service", "web")
	if text(web, "spec", "type") != "" || valueAt(web, "metadata", "namespace") != nil {
		t.Errorf("%v", web)
	}
	for _, port := range items(web, "spec", "ports") {
		if port["nodePort"] != nil {
			t.Errorf("%v", port)
		}
	}
	if text(find(t, s, "Service", "cache"), "spec", "clusterIP") != "None" {
		t.Error("a headless Service has an address")
	}
	deployment := find(t, s, "Deployment", "web")
	if got := valueAt(deployment, "spec", "template", "metadata", "labels", "released"); got != "2026-11-01" {
		t.Errorf("a date is %v", got)
	}
	if got := number(valueAt(items(deployment, "spec", "template", "spec", "volumes")[0], "configMap", "defaultMode")); got != 0o440 {
		t.Errorf("a mode is %o", got)
	}
	out := must.Get(s.Text())(t)
	must.Contain(t, string(out), `"on":"yes"`, `"big":"9007199254740993"`)
}

// A copy of a running application has its objects, without the objects that controllers and the API server create.
func TestRunning(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/running.yaml"))(t)
	objects := must.Get(Parse("running.yaml", data))(t)
	s := must.Get(New("namespace shop", objects, true))(t)
	out := must.Get(s.Text())(t)
	if len(s.Objects) != 4 {
		t.Errorf("%d objects:\n%s", len(s.Objects), out)
	}
	for _, gone := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "4711", "last-applied", "restartedAt", "revision", "10.0.0.7", "31000",
		"NodePort", "status", "nodeName", "kube-api-access", "finalizers", "helm", "root-ca", "ReplicaSet", `"namespace"`} {
		if strings.Contains(string(out), gone) {
			t.Errorf("%q in\n%s", gone, out)
		}
	}
	if d := difftest.Wrong("!strings.Contains(string(out), `\"team\":\"blue\"`)", !strings.Contains(string(out), `"team":"blue"`), "len(s.Notes) != 2", len(s.Notes) != 2, `!strings.Contains(fmt.Sprint(s.Notes), "Pod smoke: not applied: it has ended")`, !strings.Contains(fmt.Sprint(s.Notes), "Pod smoke: not applied: it has ended"), `!strings.Contains(fmt.Sprint(s.Notes), "Job migrate: not applied: it has run already")`, !strings.Contains(fmt.Sprint(s.Notes), "Job migrate: not applied: it has run already")); d != "" {
		t.Errorf("%s: %v\n%s", d, s.Notes, out)
	}
}

// In a trial's namespace objects call the trial's Services, also by addresses with a namespace, in Secrets too.
func TestPlace(t *testing.T) {
	s := read(t, "testdata/shop")
	placed := s.Place(find(t, s, "Deployment", "web"), "tare-1")
	container := items(placed, "spec", "template", "spec", "containers")[0]
	if got := container["args"].([]any)[0]; got != "--api=http://api.tare-1.svc.cluster.local:8080" {
		t.Error(got)
	}
	if got := text(items(container, "env")[0], "value"); got != "cache.tare-1:6379" {
		t.Error(got)
	}
	if got := text(placed, "metadata", "namespace"); got != "tare-1" {
		t.Error(got)
	}
	if got := text(s.Place(find(t, s, "ConfigMap", "settings"), "tare-1"), "data", "api"); got != "http://api.tare-1:8080" {
		t.Error(got)
	}
	if got := text(items(s.Place(find(t, s, "RoleBinding", "web"), "tare-1"), "subjects")[0], "namespace"); got != "tare-1" {
		t.Error(got)
	}
	secret := Object{"kind": "Secret", "data": map[string]any{"url": "aHR0cDovL3dlYi5zaG9wOjgwLw==", "raw": "/w=="}} // http://web.shop:80/
	data := mapping(s.Place(secret, "tare-1"), "data")
	if data["url"] != "aHR0cDovL3dlYi50YXJlLTE6ODAv" || data["raw"] != "/w==" {
		t.Errorf("%v", data)
	}
	if text(find(t, s, "ConfigMap", "settings"), "data", "api") != "http://api.shop:8080" {
		t.Error("the original was changed")
	}
	for in, want := range map[string]string{
		"http://myapi.shop:80": "http://myapi.shop:80", "api.shopping:80": "api.shopping:80", "api.shop.example.com": "api.shop.example.com",
		"cache-0.cache.shop.svc": "cache-0.cache.t.svc", "api.shop,web.shop": "api.t,web.t", "api.shop": "api.t",
	} {
		if got := s.moved(in, "t"); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Files without an application are refused with their place and a way out.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := must.File(t, dir, name, text)
		return path
	}
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	write("kustom/kustomization.yaml", "resources: [a.yaml]\n")
	write("empty/readme.md", "x")
	for path, want := range map[string]string{
		filepath.Join(dir, "kustom"):                    "kubectl kustomize",
		filepath.Join(dir, "kustom/kustomization.yaml"): "kubectl kustomize",
		filepath.Join(dir, "empty"):                     "has no file *.yaml",
		filepath.Join(dir, "none"):                      "no such file",
		write("syntax.yaml", service+"---\na: [\n"):     "syntax.yaml: yaml: line",
		write("chart.yaml", "\n\nreplicas: 3\n"):        "chart.yaml:3:1: not a Kubernetes object",
		write("list.yaml", "- a\n"):                     "not a Kubernetes object",
		write("two.yaml", service+"---\napiVersion: v1\nkind: Service\nmetadata: {name: b, namespace: x}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: c, namespace: y}\n"): "one namespace only",
		write("nothing.yaml", service): "has no Deployment",
		write("generated.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x}\n"): "has no metadata.name",
		"/dev/zero": "not a regular file",
	} {
		_, err := Read(path)
		if err == nil || !strings.Contains(err.Error()+hint.Of(err), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	// A link in a directory may lead anywhere.
	write("links/a.yaml", service)
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(dir, "links/b.yaml")))
	if files, err := filesAt(filepath.Join(dir, "links")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/shop/web.yaml", "testdata/shop/rest.yml", "testdata/running.yaml"} {
		data := must.Get(os.ReadFile(file))(f)
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		s, err := New("f", objects, true)
		if err != nil {
			return
		}
		for _, o := range s.Objects {
			s.Place(o, "tare-1")
		}
		if _, err := s.Text(); err != nil {
			t.Error(err)
		}
	})
}

// Calls are found by addresses of Services in arguments, the environment and ConfigMaps. Names alone are none.
func TestCalls(t *testing.T) {
	if got, want := read(t, "testdata/shop").Calls, []Call{{"web", "api"}, {"web", "cache"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	const template = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: api}, ports: [{name: http, port: 3000}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data: {nginx.conf: "location / {\n  TEXT;\n}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: x}], volumes: [{name: c, configMap: {name: web}}]}
`
	for text, want := range map[string]int{
		"proxy_pass http://api.shop.svc.cluster.local:3000": 1, "proxy_pass http://api:3000": 1, "proxy_pass http://api": 1, "server api:3000": 1, "host api.shop": 1,
		"redis://user:secret@api/0":    1,
		"proxy_pass http://myapi:3000": 0, "location /api": 0, "server api:30001": 0, "server my-api:3000": 0, "host api.shopping": 0, "log api": 0, "http://api-2/": 0,
		"http://api.example.com/": 0, "http://api.other.svc/": 0,
	} {
		objects := must.Get(Parse("x.yaml", []byte(strings.Replace(template, "TEXT", text, 1))))(t)
		s, err := New("x.yaml", objects, false)
		if err != nil || len(s.Calls) != want {
			t.Errorf("%s: %+v, %v, want %d calls", text, s.Calls, err, want)
		}
	}
}

// An application in place has notes of restarts and of objects in force. Pods without a controller are fatal.
func TestInPlace(t *testing.T) {
	objects := must.Get(Parse("x.yaml", []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {replicas: 3, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: x}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec: {template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: elsewhere, key: a}}}]}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: tool, namespace: shop, labels: {app: tool}}
spec: {containers: [{name: tool, image: x}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: shop}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: shop}
`)))(t)
	s := must.Get(New("namespace shop", objects, true))(t)
	s.InPlace()
	var all []string
	for _, n := range s.Notes {
		all = append(all, n.String())
	}
	got := strings.Join(all, "\n")
	must.Contain(t, got, "Deployment web: restarted twice in each trial, with 3 pods", "StatefulSet db: restarted twice", "HorizontalPodAutoscaler web: it can change the number of pods",
		"ResourceQuota few: it counts the pods of the load", "LimitRange small: it applies to the pods of the load")
	if f := s.Fatal(); len(f) != 1 || f[0].About != "Pod tool" || strings.Contains(got, "elsewhere") {
		t.Errorf("%v", s.Notes)
	}
}

// An application's own load generator is not deployed: its requests would be in no count.
func TestLoadGenerators(t *testing.T) {
	const text = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec: {replicas: 2, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: main, image: "example/NAME:1"}]}}}
---
`
	for name, sends := range map[string]bool{"loadgenerator": true, "vote-bot": true, "load-gen": true, "locust-worker": true, "load-balancer": false, "voting": false, "frontend": false} {
		objects := must.Get(Parse("app.yaml", []byte(strings.ReplaceAll(text+strings.ReplaceAll(text, "NAME", "web"), "NAME", name))))(t)
		s := must.Get(New("app.yaml", objects, false))(t)
		if noted := strings.Contains(fmt.Sprint(s.Notes), "Deployment "+name+": not applied: it sends requests of its own"); noted != sends || len(s.Objects) == 2 == sends {
			t.Errorf("%s: %d objects, notes %v", name, len(s.Objects), s.Notes)
		}
		if s.InPlace(); sends != strings.Contains(fmt.Sprint(s.Notes), "it sends requests of its own") {
			t.Errorf("%s in place: %v", name, s.Notes)
		}
	}
}
