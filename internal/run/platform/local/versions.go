package local

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// controlVersions checks that each process of the control plane is the version that was found on this machine.
func (v *verifier) controlVersions(ctx context.Context) []platform.Check {
	var checks []platform.Check
	for _, c := range v.control.running {
		answered := c.definition.Version
		if answered == nil {
			continue
		}
		answer, err := v.control.request(ctx, answered.Request, c.context)
		said := ""
		if err == nil {
			said, err = field(answer, answered.Field)
		}
		checks = append(checks, versionCheck(c.name, v.layout.programs[c.definition.Program].version, said, err))
	}
	return checks
}

// proxyVersions checks that each sidecar is the version that was found on this machine.
func (v *verifier) proxyVersions(ctx context.Context) []platform.Check {
	local := v.layout.spec.Mesh.Local
	if local == nil || local.Verify.Version == "" {
		return nil
	}
	want := v.layout.programs[local.Sidecar.Program].version
	var checks []platform.Check
	for _, p := range v.layout.proxiedPods() {
		answer, err := p.admin.get(ctx, "/server_info")
		said := ""
		if err == nil {
			said, err = field(answer, local.Verify.Version)
		}
		checks = append(checks, versionCheck("the sidecar of "+p.name, want, said, err))
	}
	return checks
}

// versionCheck holds what a program says against what it should be; it may say more than the version alone.
func versionCheck(who, want, said string, err error) platform.Check {
	c := platform.Check{Name: "version of " + who, OK: err == nil && strings.Contains(said, want),
		Detail: fmt.Sprintf("it says %q, %s expected", said, want)}
	if err != nil {
		c.Detail = err.Error()
	}
	if !c.OK {
		c.Hint = "another program than the one that was found answers at its address"
	}
	return c
}

// field finds a text in JSON by names with dots between them.
func field(answer []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("read %s of the answer: %w", path, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("the answer has no text %s", path)
	}
	return text, nil
}
