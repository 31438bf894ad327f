package meshes

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// newBatches installs the small mesh for a run.
func newBatches(t *testing.T, c *cluster.Cluster) (batches *Batches, small, none mesh.Definition, reported *[]string) {
	t.Helper()
	small = must.Get(mesh.Decode("small.yaml", []byte(smallMesh)))(t)
	none = must.Get(mesh.Load("none"))(t)
	reported = &[]string{}
	charts := smallCharts(t, toolbox)
	batches = NewBatches(c, func(string) Choice { return Choice{Options: Options{Charts: charts, Run: "tare-test-batch"}} },
		func(line string) { *reported = append(*reported, line); t.Log(line) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := batches.End(ctx); err != nil {
			t.Error(err)
		}
	})
	return batches, small, none, reported
}

// installedSmall is the UID of the small mesh's namespace, empty if it is not installed.
func installedSmall(t *testing.T, c *cluster.Cluster) types.UID {
	t.Helper()
	ns, err := c.Typed().CoreV1().Namespaces().Get(t.Context(), "tare-test-small", metav1.GetOptions{})
	if cluster.IsNotFound(err) {
		return ""
	}
	must.OK(t, err)
	return ns.UID
}

// A mesh stays installed during its batch, and is removed after it.
func TestRealBatches(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	batches, small, none, _ := newBatches(t, c)
	var first types.UID
	var current *Batch
	for i, d := range []mesh.Definition{none, small, small} {
		current = must.Get(batches.Ready(bounded(t, 2*time.Minute), d, false))(t)
		switch uid := installedSmall(t, c); i {
		case 0:
			if uid != "" {
				t.Fatal("the mesh is installed in a trial without one")
			}
		case 1:
			first = uid
		default:
			if uid == "" || uid != first {
				t.Errorf("namespace %q is not that of the trial before, %q", uid, first)
			}
		}
	}
	// Every trial archives the installed manifests.
	for range 2 {
		archive := kept{}
		if err := current.Archive(bounded(t, time.Minute), "default", archive.keep); err != nil || archive["chart-small.yaml"] == nil || archive["images.json"] == nil {
			t.Errorf("%d files, %v", len(archive), err)
		}
	}
	must.Get(batches.Ready(bounded(t, 2*time.Minute), none, false))(t)
	sameInventory(t, c, before)
}

// The next run removes the mesh of a dead run. A mesh of a living process is used and stays, and no other can be measured.
func TestRealBatchesWithInstalledMesh(t *testing.T) {
	c := connect(t)
	dead, small, none, _ := newBatches(t, c)
	must.Get(dead.Ready(bounded(t, 2*time.Minute), small, false))(t)
	left := installedSmall(t, c)
	abandonSmall(t, c)
	next, _, _, reported := newBatches(t, c)
	if err := next.Possible(t.Context(), []string{"none", small.Name}); err != nil {
		t.Errorf("the mesh of a dead run conflicts: %v", err)
	}
	must.Get(next.Ready(bounded(t, 3*time.Minute), small, false))(t)
	if uid := installedSmall(t, c); uid == "" || uid == left || !strings.Contains(strings.Join(*reported, "\n"), "a leftover of run tare-test-batch") {
		t.Errorf("namespace %q, that of the dead run was %q, reported %q", uid, left, *reported)
	}
	// Other batches find a mesh whose process is alive.
	other, _, _, _ := newBatches(t, c)
	_, unready := other.Ready(bounded(t, time.Minute), none, false)
	for what, err := range map[string]error{
		"ready":    unready,
		"possible": other.Possible(t.Context(), []string{"none"}),
	} {
		must.Fail(t, err, "would be measured with none", what)
	}
	kept := installedSmall(t, c)
	must.Get(other.Ready(bounded(t, time.Minute), small, false))(t)
	if err := other.End(bounded(t, time.Minute)); err != nil || installedSmall(t, c) != kept {
		t.Errorf("a preinstalled mesh was removed: %v", err)
	}
	dead.current = nil // its mesh is removed already
	// A run without a mesh has no file of its definition, which the mesh keeps.
	abandonSmall(t, c)
	last, _, _, _ := newBatches(t, c)
	if _, err := last.Ready(bounded(t, 2*time.Minute), none, false); err != nil || installedSmall(t, c) != "" {
		t.Errorf("a run without a mesh leaves the mesh of a dead run: %v", err)
	}
	next.current = nil
}

// abandonSmall makes a dead process the owner of the small mesh.
func abandonSmall(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	m := small(t, c, toolbox, mesh.Settings{}, kept{})
	found, ours, err := m.installed(t.Context())
	if err != nil || !ours {
		t.Fatalf("the small mesh has a record: %v, %v", ours, err)
	}
	found.Owner.Start-- // another process had this number
	must.OK(t, writeRecord(t.Context(), c, found.Mesh, &found))
}

// An installation or a removal can be killed at any moment: the next command finishes the removal, and nothing is left.
func TestRealKilledMoments(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	install := func(m *Mesh, ctx context.Context) error { // without the removal after a failure, as of a killed process
		n := newInstaller(m.instance)
		info, err := readClusterInfo(ctx, c, "")
		if err == nil {
			_, err = n.install(ctx, info)
		}
		return err
	}
	uninstall := func(m *Mesh, ctx context.Context) error { return m.Uninstall(ctx, false) }
	for i := range 20 {
		m := small(t, c, toolbox, mesh.Settings{}, kept{})
		killed, name, moment := install, "install", rand.N(time.Second)
		if i%2 == 1 {
			must.OK(t, install(m, bounded(t, 2*time.Minute)))
			killed, name, moment = uninstall, "uninstall", rand.N(4*time.Second)
		}
		ctx, kill := context.WithCancel(bounded(t, time.Minute))
		timer := time.AfterFunc(moment, kill)
		err := killed(m, ctx)
		timer.Stop()
		kill()
		t.Logf("%s, killed after %v: %v", name, moment, err)
		all, listed := Installed(bounded(t, time.Minute), c)
		if listed != nil {
			t.Fatal(listed)
		}
		switch {
		case len(all) == 0: // before its first object, or after its last one
		case i%4 < 2: // the next installation removes it first
			abandonSmall(t, c)
			if all[0].Incomplete {
				if _, err := m.Install(bounded(t, 2*time.Minute)); err != nil {
					t.Errorf("install after %s was killed: %v", name, err)
				}
			}
			fallthrough
		default:
			if err := m.Uninstall(bounded(t, 2*time.Minute), false); err != nil {
				t.Errorf("uninstall after %s was killed: %v", name, err)
			}
		}
		sameInventory(t, c, before)
		if all, err := Installed(bounded(t, time.Minute), c); err != nil || len(all) > 0 {
			t.Errorf("its record is left: %v, %v", all, err)
		}
	}
}

// An installed mesh has its definition: one that comes with tare, or its text. No name in a cluster opens a file.
func TestDefinitionOfInstallation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	write(t, filepath.Dir(file), map[string]string{"mesh.yaml": smallMesh})
	for name, c := range map[string]struct {
		i    Installation
		want string // its namespace
	}{
		"with tare":            {Installation{Mesh: "istio", Namespace: "istio-system"}, "istio-system"},
		"with tare, a text":    {Installation{Mesh: "istio", Namespace: "istio-system", Text: smallMesh}, "istio-system"},
		"a variant":            {Installation{Mesh: "log", From: "istio", Namespace: "istio-system"}, "istio-system"},
		"a revision":           {Installation{Mesh: "log", From: "istio", Namespace: "istio-system-log"}, "istio-system-log"},
		"one's own":            {Installation{Mesh: "tare-test-small", Namespace: "tare-test-small", Text: smallMesh}, "tare-test-small"},
		"a variant of it":      {Installation{Mesh: "log", From: "tare-test-small", Namespace: "tare-test-small", Text: smallMesh}, "tare-test-small"},
		"without its text":     {Installation{Mesh: "tare-test-small", Namespace: "tare-test-small"}, ""},
		"another's text":       {Installation{Mesh: "other", Namespace: "tare-test-small", Text: smallMesh}, ""},
		"another namespace":    {Installation{Mesh: "tare-test-small", Namespace: "shop", Text: smallMesh}, ""},
		"a path as its origin": {Installation{Mesh: "tare-test-small", From: file, Namespace: "tare-test-small"}, ""},
	} {
		d, err := c.i.Definition()
		if (err == nil) != (c.want != "") || err == nil && (d.Kubernetes.Namespace != c.want || d.Name != c.i.Mesh || d.From != c.i.From) {
			t.Errorf("%s: %s of %q in %v, %v", name, d.Name, d.From, d.Kubernetes, err)
		}
	}
}

// A trial that waits for the mesh of another one ends with its context.
func TestWaitForMeshOfOtherTrialEnds(t *testing.T) {
	batches := NewBatches(nil, nil, nil)
	unlock := must.Get(batches.lock(t.Context()))(t)
	none := must.Get(mesh.Load("none"))(t)
	interrupted := errors.New("interrupted")
	for name, wait := range map[string]func(context.Context) error{
		"ready": func(ctx context.Context) error { _, err := batches.Ready(ctx, none, true); return err },
		"end":   batches.End,
	} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- wait(ctx) }()
		interrupt(interrupted)
		select {
		case err := <-ended:
			if !errors.Is(err, interrupted) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it waits after the interrupt", name)
		}
	}
	unlock()
	if err := batches.End(t.Context()); err != nil {
		t.Errorf("after the other trial: %v", err)
	}
}

// Two revisions of a mesh are in the cluster at once. Both use the chart that they share, which goes with the last of
// them.
func TestRealRevisions(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	charts := smallCharts(t, toolbox)
	write(t, charts, map[string]string{
		"base/Chart.yaml": "apiVersion: v2\nname: base\nversion: 1.0.0\n",
		"base/templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
			"metadata: {name: small-reader}\nrules: []\n",
		"a/b/templates/all.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: "small-{{ .Values.revision }}", namespace: {{ .Release.Namespace }}}
spec:
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: small, image: "` + toolbox + `", imagePullPolicy: Never, command: [sleep, "3600"]}]
`})
	text := strings.Replace(smallMesh, "  charts:\n", `  coexists: true
  revisions:
    shared: [base]
    values: {small: "revision: {{.Revision}}"}
    workloads: [{kind: Deployment, name: "small-{{.Revision}}", scaled: true}]
    namespace: {labels: {small.test/rev: "{{.Revision}}"}}
  charts:
  - {release: base, chart: base, repository: "https://charts.invalid"}
`, 1)
	var revisions []mesh.Definition
	for _, name := range []string{"a", "b"} {
		d := must.Get(mesh.Decode("small.yaml", []byte(text)))(t)
		d.Name, d.From = name, d.Name
		d = must.Get(d.AsRevision())(t)
		revisions = append(revisions, d)
	}
	batches := NewBatches(c, func(string) Choice { return Choice{Options: Options{Charts: charts, Run: "tare-test-revisions"}} }, func(line string) { t.Log(line) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := batches.End(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, d := range revisions {
		must.Get(batches.Ready(bounded(t, 2*time.Minute), d, true))(t)
	}
	shared := []string{"ClusterRole small-reader", "CustomResourceDefinition widgets.small.test"}
	has := func(namespace string) bool {
		_, err := c.Get(t.Context(), cluster.Ref{Kind: cluster.KindNamespace, Name: namespace})
		if err != nil && !cluster.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	keepsShared := func() {
		t.Helper()
		all := strings.Join(slices.Collect(maps.Keys(inventory(t, c))), "\n")
		for _, ref := range shared {
			if name := strings.Fields(ref)[1]; !strings.Contains(all, name) {
				t.Errorf("%s is missing", ref)
			}
		}
	}
	if !has("tare-test-small-a") || !has("tare-test-small-b") {
		t.Error("the revisions have no namespaces of their own")
	}
	keepsShared()
	for _, b := range batches.current {
		checks, err := controlPlane{b.instance, scaler{c, nil}}.check(t.Context())
		if failed := failing(checks); err != nil || len(failed) > 0 || len(checks) != 2 {
			t.Errorf("%s: %d checks, %q, %v", b.definition.Name, len(checks), failed, err)
		}
	}
	// The first one has the release of the shared chart. The other keeps working without it.
	must.OK(t, batches.end(bounded(t, 2*time.Minute), func(b *Batch) bool { return b.definition.Name == "b" }))
	if has("tare-test-small-a") || !has("tare-test-small-b") {
		t.Error("the wrong revision was removed")
	}
	keepsShared()
	if crd, err := c.Get(t.Context(), cluster.Ref{Kind: kindCRD, Name: "widgets.small.test"}); err != nil || crd.GetLabels()[cluster.LabelInstalled] != "b" {
		t.Errorf("the shared CRD is not handed over: %v, %v", crd, err)
	}
	plain := must.Get(mesh.Decode("small.yaml", []byte(text)))(t)
	if m, err := New(c, plain, mesh.Settings{}, Options{}); err != nil {
		t.Error(err)
	} else if err := m.Uninstall(bounded(t, time.Minute), true); err == nil || !strings.Contains(err.Error(), "revisions of it are installed") {
		t.Errorf("the plain mesh is uninstalled below its revision: %v", err)
	}
	must.OK(t, batches.End(bounded(t, 2*time.Minute)))
	sameInventory(t, c, before)
}

// A mesh whose installation failed and could not be removed is removed before the next trial, also before one of the same
// mesh, and at the end of the run.
func TestFailedInstallationIsRemoved(t *testing.T) {
	var recorder cluster.Recorder
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: "/no/such/file", Recorder: &recorder}))(t)
	batches, small, none, _ := newBatches(t, c)
	for _, next := range []mesh.Definition{small, none} {
		must.Get(batches.Ready(t.Context(), small, false))(t)
		batches.current[0].failed = true
		before := steps(t, &recorder)
		must.Get(batches.Ready(t.Context(), next, true))(t)
		if got := strings.TrimPrefix(steps(t, &recorder), before); !strings.Contains(got, "tare mesh uninstall "+small.Name) {
			t.Errorf("before a trial of %s the failed installation is left:\n%s", next.Name, got)
		}
	}
	if err := unremoved(ErrInstalled, context.DeadlineExceeded); !errors.As(err, new(*Unremoved)) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrInstalled) {
		t.Errorf("%v hides its causes", err)
	}
	if err := unremoved(ErrInstalled, nil); errors.As(err, new(*Unremoved)) {
		t.Errorf("%v: it was removed", err)
	}
}

// steps returns the steps of a dry run so far.
func steps(t *testing.T, r *cluster.Recorder) string {
	t.Helper()
	var b strings.Builder
	must.Get(r.WriteTo(&b))(t)
	return b.String()
}
