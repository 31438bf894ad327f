package companion_test

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// `go install …/cmd/...@v…` alone is enough: it puts tare-agent beside tare.
func TestGoInstallAlone(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("it builds tare and tare-agent: make e2e-all runs it")
	}
	const module, version = "github.com/tare-mesh/tare", "v0.0.9"
	dir := t.TempDir()
	cached := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	proxy := filepath.Join(dir, "proxy", filepath.FromSlash(module), "@v")
	must.OK(t, os.MkdirAll(proxy, 0o755))
	publish(t, proxy, module, version)
	gobin := filepath.Join(dir, "bin")
	environment := append(os.Environ(),
		"GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+filepath.Join(strings.TrimSpace(string(cached)), "cache", "download"),
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOBIN="+gobin, "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=none", "GOFLAGS=-modcacherw",
		"CGO_ENABLED=0", "GOWORK=off", "GOCACHE="+goCache(t))
	run := func(command string, args ...string) string {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "install", module+"/cmd/...@"+version)
	tare := filepath.Join(gobin, "tare")
	if out := run(tare, "--version"); out != "tare "+version+"\n" {
		t.Errorf("version: %s", out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer server.Close()
	must.Contain(t, run(tare, "load", server.URL, "--rate", "50", "--duration", "1s"), "50")
}

func goCache(t *testing.T) string {
	t.Helper()
	out := must.Get(exec.Command("go", "env", "GOCACHE").Output())(t)
	return strings.TrimSpace(string(out))
}

// publish writes a version of the module of this work tree, as a module proxy has it.
func publish(t *testing.T, dir, module, version string) {
	t.Helper()
	const root = "../../.."
	listed := must.Get(exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", "go.mod", "go.sum", "cmd", "examples", "internal").Output())(t)
	f := must.Get(os.Create(filepath.Join(dir, version+".zip")))(t)
	defer f.Close()
	z := zip.NewWriter(f)
	for name := range strings.Lines(string(listed)) {
		name = strings.TrimSuffix(name, "\n")
		if strings.Contains(name, "/testdata/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(root, filepath.FromSlash(name))))(t)
		w := must.Get(z.Create(module + "@" + version + "/" + name))(t)
		must.Get(w.Write(b))(t)
	}
	must.OK(t, z.Close())
	mod := must.Get(os.ReadFile(filepath.Join(root, "go.mod")))(t)
	for name, text := range map[string]string{
		version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version), version + ".mod": string(mod), "list": version + "\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}
