package provider

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/regular"
)

var update = flag.Bool("update", false, "update testdata/commands.golden")

// recordingVariable makes the test binary a provider's program: it plays the next step of a recording.
const recordingVariable = "TARE_TEST_RECORDING"

// separateVariable is the path of [Provider.Separate] in a recording.
const separateVariable = "TARE_TEST_SEPARATE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(recordingVariable); dir != "" {
		os.Exit(play(dir))
	}
	os.Exit(m.Run())
}

// play answers as the recorded program did, and fails at any other command or input.
func play(dir string) int {
	n := 0
	for ; ; n++ {
		if f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(n)+".played"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
			break
		}
	}
	step := func(part string) (string, bool) {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n)+"."+part))
		return string(b), err == nil
	}
	kubeconfig := os.Getenv("KUBECONFIG")
	command := proc.Command{Path: filepath.Base(os.Args[0]), Args: os.Args[1:]}
	if dir := os.Getenv("K3S_DATA_DIR"); dir != "" {
		command.Env = []string{"K3S_DATA_DIR=" + dir}
	}
	called := strings.ReplaceAll(command.String(), kubeconfig, "KUBECONFIG")
	if want, _ := step("command"); called != strings.TrimSpace(want) {
		fmt.Fprintf(os.Stderr, "recording: called %s, recorded %s\n", called, want)
		return 99
	}
	input, _ := io.ReadAll(os.Stdin)
	if want, _ := step("stdin"); string(input) != want {
		fmt.Fprintf(os.Stderr, "recording: standard input\n%s, recorded\n%s\n", input, want)
		return 99
	}
	for part, w := range map[string]io.Writer{"stdout": os.Stdout, "stderr": os.Stderr} {
		text, _ := step(part)
		_, _ = io.WriteString(w, text)
	}
	for part, path := range map[string]string{"kubeconfig": kubeconfig, "separate": os.Getenv(separateVariable)} {
		text, ok := step(part)
		if !ok {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 99
		}
	}
	text, _ := step("exit")
	code, _ := strconv.Atoi(strings.TrimSpace(text))
	return code
}

// recording makes the programs of a recording the only ones on PATH. Its parts are N.command, N.stdin, N.stdout,
// N.stderr, N.kubeconfig and N.separate (the files after the command) and N.exit, counted from 0.
func recording(t *testing.T, parts []txtar.File) (Clusters, Settings) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	self := must.Get(os.Executable())(t)
	steps := 0
	for _, f := range parts {
		must.OK(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
		if strings.HasSuffix(f.Name, ".command") {
			steps++
		}
	}
	for _, p := range Providers() {
		for _, program := range p.Programs {
			if err := os.Symlink(self, filepath.Join(bin, program)); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv(recordingVariable, dir)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	records := must.Get(OpenRecords())(t)
	t.Cleanup(func() {
		played, _ := filepath.Glob(filepath.Join(dir, "*.played"))
		if len(played) != steps {
			t.Errorf("%d of %d recorded commands were called", len(played), steps)
		}
	})
	now := func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	return Clusters{Records: records, Out: io.Discard, Now: now}, Settings{Name: "tare", Kubeconfig: filepath.Join(t.TempDir(), "sub", "config")}
}

// inTemporary moves a path of a provider to a directory of the test.
func inTemporary(t *testing.T, path string) string {
	t.Helper()
	moved := strings.Replace(path, "/var/lib", filepath.Dir(t.TempDir()), 1)
	if moved == path {
		t.Fatalf("%s is not below /var/lib", path)
	}
	return moved
}

// chosen are the settings that the recordings and the dry runs have.
func chosen(t *testing.T, p Provider, s Settings) Settings {
	t.Helper()
	for _, name := range p.Has {
		switch name {
		case "machine":
			s.Machine = "m-8"
		case "zone":
			s.Zone = "zone-1"
		case "version":
			s.Version = "v1.36.1"
		case "project":
			s.Project = "mine"
		}
	}
	if s.Nodes = 3; p.MaxNodes > 0 {
		s.Nodes = p.MaxNodes
	}
	return must.Get(p.Complete(s))(t)
}

// The whole life of a cluster: created, recorded, found again, deleted with its context.
func TestLifeOfCluster(t *testing.T) {
	for _, p := range Providers() {
		name := p.Name
		if name == "tare-cluster" || p.Cloud { // TestKubernetesCreateAndDelete has the test cluster's life for real
			continue
		}
		t.Run(name, func(t *testing.T) {
			a := must.Get(txtar.ParseFile("testdata/life/" + name + ".txtar"))(t)
			c, s := recording(t, a.Files)
			s = chosen(t, p, s)
			var left []string // must not be
			if p.State != "" {
				p.State, p.Separate = inTemporary(t, p.State), inTemporary(t, p.Separate)
				left = []string{expand(p.State, s), expand(p.Separate, s)}
				t.Setenv(separateVariable, expand(p.Separate, s))
				must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(s.Kubeconfig), 0o700), os.WriteFile(s.Kubeconfig, []byte(userConfig), 0o600)))
			}
			r, err := c.Create(t.Context(), p, s)
			if err != nil {
				t.Fatalf("%v\n%s", err, hint.Of(err))
			}
			if want := strings.TrimSpace(string(a.Comment)); r.Context != want {
				t.Errorf("context %q, want %q", r.Context, want)
			}
			kept, err := c.Records.Of(name, "tare")
			if kept.Schema = ""; err != nil || kept != r {
				t.Errorf("recorded %+v, %v, want %+v", kept, err, r)
			}
			must.OK(t, c.Delete(t.Context(), p, r, false))
			for context, want := range map[string]bool{r.Context: false, "mine": true} {
				if has, err := hasContext(s.Kubeconfig, context); err != nil || has != want {
					t.Errorf("context %s left: %v, %v", context, has, err)
				}
			}
			if all, err := c.Records.All(); err != nil || len(all) != 0 {
				t.Errorf("records left: %v, %v", all, err)
			}
			for _, path := range left {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", path, err)
				}
			}
		})
	}
}

const userConfig = "apiVersion: v1\nkind: Config\nclusters: [{name: mine, cluster: {server: 'https://127.0.0.1:6443'}}]\n" +
	"users: [{name: mine, user: {token: t}}]\ncontexts: [{name: mine, context: {cluster: mine, user: mine}}]\ncurrent-context: mine\n"

// A machine holds one k3s. Another one is named, and remains when a dead cluster of tare is deleted beside it.
func TestOtherK3s(t *testing.T) {
	const list = ".command --\nsystemctl list-units --all --plain --no-legend k3s.service 'tare-k3s-*.service'\n"
	const units = ".stdout --\nk3s.service loaded active running Lightweight Kubernetes\ntare-k3s-tare.service loaded failed failed k3s server\n"
	c, s := recording(t, txtar.Parse([]byte("-- 0"+list+"-- 0"+units+"-- 1"+list+"-- 1"+units)).Files)
	p, err := Find("k3s")
	must.OK(t, err)
	p.State = filepath.Join(t.TempDir(), "${name}")
	s = chosen(t, p, s)
	_, err = c.Create(t.Context(), p, s)
	if err == nil || err.Error() != "k3s.service runs on this machine, which can hold one k3s cluster" || hint.Of(err) != "stop it, or use k3d" {
		t.Errorf("%v (%s)", err, hint.Of(err))
	}
	r := Record{Provider: "k3s", Settings: s, Created: c.Now()}
	if err := errors.Join(c.Records.Save(r), c.Delete(t.Context(), p, r, false)); err != nil {
		t.Error(err)
	}
	if all, err := c.Records.All(); err != nil || len(all) != 0 {
		t.Errorf("records left: %v, %v", all, err)
	}
}

// Errors that the programs print are explained, with what to do.
func TestErrorsAreExplained(t *testing.T) {
	a := must.Get(txtar.ParseFile("testdata/errors.txtar"))(t)
	seen := map[string]bool{}
	for i := 0; i+1 < len(a.Files); i += 2 {
		output, want := a.Files[i], a.Files[i+1]
		t.Run(output.Name, func(t *testing.T) {
			name, _, _ := strings.Cut(output.Name, " ")
			p := must.Get(Find(name))(t)
			seen[name] = true
			got, ok := p.explain(string(output.Data))
			if text := got.Text + "\n" + got.Hint + "\n"; !ok || text != string(want.Data) {
				t.Errorf("got\n%swant\n%s", text, want.Data)
			}
		})
	}
	for _, p := range Providers() {
		if !seen[p.Name] && !p.Cloud {
			t.Errorf("no recorded error of %s", p.Name)
		}
	}
}

const noClusters = "-- 0.command --\nk3d cluster list --no-headers\n"

func k3d(t *testing.T, text string) (Clusters, Provider, Settings) {
	t.Helper()
	c, s := recording(t, txtar.Parse([]byte(text)).Files)
	p := must.Get(Find("k3d"))(t)
	s = must.Get(p.Complete(s))(t)
	return c, p, s
}

const createK3d = "k3d cluster create tare --servers 1 --agents 0 --k3s-arg '--disable=traefik@server:*' --wait --timeout 5m\n"

// A cluster of that name is neither replaced nor recorded: it could be deleted later.
func TestExistingClusterIsRefused(t *testing.T) {
	c, p, s := k3d(t, noClusters+"-- 0.stdout --\ntare    1/1   0/0   true\n")
	_, err := c.Create(t.Context(), p, s)
	if err == nil || err.Error() != "a k3d cluster tare exists, and tare did not create it" || hint.Of(err) != "choose another --name" {
		t.Errorf("%v", err)
	}
	if all, _ := c.Records.All(); len(all) != 0 {
		t.Errorf("recorded: %v", all)
	}
}

// The context of another cluster is not overwritten.
func TestStaleContext(t *testing.T) {
	c, p, s := k3d(t, noClusters)
	config := strings.ReplaceAll(userConfig, "name: mine", "name: k3d-tare")
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(s.Kubeconfig), 0o700), os.WriteFile(s.Kubeconfig, []byte(config), 0o600)))
	_, err := c.Create(t.Context(), p, s)
	if err == nil || !strings.Contains(err.Error(), "context k3d-tare exists in") || !strings.Contains(hint.Of(err), "or delete the context") {
		t.Errorf("%v (%s)", err, hint.Of(err))
	}
}

// Clusters of clouds are deleted by their users.
func TestCloudIsNotDeleted(t *testing.T) {
	p, err := Find("eks")
	must.OK(t, err)
	err = Clusters{Records: "/records"}.Delete(t.Context(), p, Record{Provider: "eks", Settings: Settings{Name: "tare"}}, false)
	if want := "delete it with eksctl, and remove /records/eks-tare.json"; hint.Of(err) != want {
		t.Errorf("%v (%s), want %s", err, hint.Of(err), want)
	}
}

// A program that does not list a cluster that answers works elsewhere, such as in another container runtime.
func TestUnlistedClusterThatAnswers(t *testing.T) {
	c, p, s := k3d(t, noClusters)
	r := Record{Provider: "k3d", Settings: s, Context: "k3d-tare", UID: "u", Created: c.Now()}
	must.OK(t, c.Records.Save(r))
	if err := c.Delete(t.Context(), p, r, true); err == nil || !strings.HasSuffix(err.Error(), "answers, and k3d does not list it") || !strings.Contains(hint.Of(err), "DOCKER_HOST") {
		t.Errorf("%v (%s)", err, hint.Of(err))
	}
	if all, err := c.Records.All(); err != nil || len(all) != 1 {
		t.Errorf("recorded: %v, %v", all, err)
	}
}

// Of a failed creation without remains nothing is recorded, but with remains they can be deleted.
func TestFailedCreation(t *testing.T) {
	const failed = noClusters + "-- 1.command --\n" + createK3d +
		"-- 1.stderr --\nFATA[0001] Failed to create cluster: disk full\n-- 1.exit --\n1\n-- 2.command --\nk3d cluster list --no-headers\n"
	t.Run("without remains", func(t *testing.T) {
		c, p, s := k3d(t, failed)
		state := t.TempDir()
		p.State = state + "/${name}"
		must.OK(t, os.MkdirAll(filepath.Join(state, "tare", "server"), 0o700))
		_, err := c.Create(t.Context(), p, s)
		if left, _ := os.ReadDir(state); len(left) != 0 {
			t.Errorf("state left: %v", left)
		}
		if err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "k3d cluster create tare") {
			t.Errorf("%v", err)
		}
		if all, _ := c.Records.All(); len(all) != 0 {
			t.Errorf("recorded: %v", all)
		}
	})
	t.Run("with remains", func(t *testing.T) {
		c, p, s := k3d(t, failed+"-- 2.stdout --\ntare    0/1   0/0   true\n")
		_, err := c.Create(t.Context(), p, s)
		if hint.Of(err) != "delete what was created: tare cluster delete tare --unreachable" {
			t.Errorf("%v: %s", err, hint.Of(err))
		}
		if all, _ := c.Records.All(); len(all) != 1 || all[0].Context != "" {
			t.Errorf("recorded: %v", all)
		}
	})
}

// The pods of a k3s server outlive it.
func TestServerOfK3sDied(t *testing.T) {
	c, s := recording(t, txtar.Parse([]byte(
		"-- 0.command --\nsystemctl list-units --all --plain --no-legend k3s.service 'tare-k3s-*.service'\n"+
			"-- 1.command --\nsystemctl stop tare-k3s-tare\n-- 1.stderr --\nFailed to stop tare-k3s-tare.service: Unit tare-k3s-tare.service not loaded.\n-- 1.exit --\n5\n"+
			"-- 2.command --\nK3S_DATA_DIR=/var/lib/tare-k3s/tare k3s-killall.sh\n")).Files)
	p := must.Get(Find("k3s"))(t)
	p.State = filepath.Join(t.TempDir(), "${name}")
	r := Record{Provider: "k3s", Settings: chosen(t, p, s), Created: c.Now()}
	if err := errors.Join(c.Records.Save(r), c.Delete(t.Context(), p, r, false)); err != nil {
		t.Error(err)
	}
}

func TestProgramIsMissing(t *testing.T) {
	c, p, s := k3d(t, "")
	t.Setenv("PATH", t.TempDir())
	_, err := c.Create(t.Context(), p, s)
	if err == nil || err.Error() != "k3d is not on PATH" || !strings.HasPrefix(hint.Of(err), "install k3d (k3d.io)") {
		t.Errorf("%v: %s", err, hint.Of(err))
	}
}

// Settings cannot become options of a program, and those without a meaning are refused.
func TestSettings(t *testing.T) {
	for want, c := range map[string]struct {
		provider string
		s        Settings
	}{
		`--name "-x" is not a name of a cluster`:  {"kind", Settings{Name: "-x"}},
		`--name "a;b" is not a name of a cluster`: {"kind", Settings{Name: "a;b"}},
		`--machine "--quiet" cannot be used`:      {"gke", Settings{Name: "a", Project: "p", Zone: "z", Machine: "--quiet"}},
		`--version "1 2" cannot be used`:          {"kind", Settings{Name: "a", Version: "1 2"}},
		"gke needs --zone":                        {"gke", Settings{Name: "a", Project: "p"}},
		"--zone: kind has no such setting":        {"kind", Settings{Name: "a", Zone: "z"}},
		"--nodes 2: the maximum of k3s is 1":      {"k3s", Settings{Name: "a", Nodes: 2}},
		"--nodes -1 is not a number of nodes":     {"kind", Settings{Name: "a", Nodes: -1}},
	} {
		p := must.Get(Find(c.provider))(t)
		if _, err := p.Complete(c.s); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The commands of every provider, with all settings and with none.
func TestCommands(t *testing.T) {
	var b bytes.Buffer
	for _, p := range Providers() {
		all := chosen(t, p, Settings{Name: "tare", Kubeconfig: "/home/jo/.kube/config"})
		calls := slices.Concat(p.Creation(), p.Delete)
		text := must.Get(p.Commands(all, calls))(t)
		fmt.Fprintf(&b, "# %s\n%s\n", p.Name, strings.ReplaceAll(text, "KUBECONFIG=/home/jo/.kube/config ", ""))
	}
	const golden = "testdata/commands.golden"
	if *update {
		must.OK(t, os.WriteFile(golden, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%v, got\n%s", err, b.Bytes())
	}
}

// The user's other contexts, and what they share with the removed one, remain.
func TestContexts(t *testing.T) {
	dir := t.TempDir()
	config, file := filepath.Join(dir, "config"), filepath.Join(dir, "k3s.yaml")
	const one = "apiVersion: v1\nkind: Config\nclusters: [{name: default, cluster: {server: 'https://127.0.0.1:6443'}}]\n" +
		"users: [{name: default, user: {token: t}}]\ncontexts: [{name: default, context: {cluster: default, user: default}}]\ncurrent-context: default\n"
	for _, path := range []string{config, file} {
		must.OK(t, os.WriteFile(path, []byte(one), 0o600))
	}
	link := filepath.Join(dir, "link")
	must.OK(t, errors.Join(os.Symlink(config, link), os.Chmod(config, 0o640)))
	must.OK(t, addContext(link, file, "k3s-tare"))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	both, err := readKubeconfig(config)
	if err != nil || len(both.Contexts) != 2 {
		t.Errorf("%v, %+v", err, both)
	} else if d := difftest.Of("both.CurrentContext", both.CurrentContext, "k3s-tare", `both.Clusters["k3s-tare"].Server`, both.Clusters["k3s-tare"].Server, "https://127.0.0.1:6443"); d != "" {
		t.Errorf("%s: %v, %+v", d, err, both)
	}
	must.OK(t, removeContext(config, "k3s-tare"))
	left, err := readKubeconfig(config)
	if err != nil || len(left.Contexts) != 1 || len(left.Clusters) != 1 || len(left.AuthInfos) != 1 || left.CurrentContext != "" || left.Contexts["default"] == nil {
		t.Errorf("%v, %+v", err, left)
	}
}

// A record under another name, or written by others, is not proof.
func TestForeignRecords(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	records := must.Get(OpenRecords())(t)
	r := Record{Provider: "kind", Settings: Settings{Name: "a"}}
	must.OK(t, records.Save(r))
	must.OK(t, os.Rename(records.path("kind", "a"), records.path("kind", "b")))
	must.Fail(t, must.Err(records.Of("kind", "b")), "is not a record of tare")
	if _, err := records.Of("kind", "../../x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	must.OK(t, os.Chmod(string(records), 0o777))
	must.Fail(t, must.Err(OpenRecords()), "can be written by others")
	if os.Getuid() != 0 {
		return
	}
	must.OK(t, errors.Join(os.Chmod(string(records), 0o700), os.Chown(string(records), 65534, 65534)))
	if _, err := OpenRecords(); !errors.Is(err, regular.ErrForeign) || !strings.Contains(hint.Of(err), "XDG_STATE_HOME") {
		t.Errorf("another's directory: %v", err)
	}
}
