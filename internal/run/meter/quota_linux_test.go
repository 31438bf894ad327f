package meter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// The CPU limit is found in control groups of either version, own or above.
func TestQuota(t *testing.T) {
	for _, test := range []struct {
		name, listed string
		files        map[string]string
		want         string
		throttled    int64
	}{
		{"version 2", "0::/a/b\n", map[string]string{"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "max 100000\n"}, "1.5", -1},
		{"version 2, above", "0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, "0.5", -1},
		{"version 1", "3:cpuset:/\n2:cpu,cpuacct:/d/c\n", map[string]string{"cpu/d/c/cpu.cfs_quota_us": "50000\n", "cpu/d/c/cpu.cfs_period_us": "100000\n",
			"cpu/d/c/cpu.stat": "nr_periods 9\nnr_throttled 4\n"}, "0.5", 4},
		{"version 1, no limit", "2:cpu:/\n0::/\n", map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "none", -1},
		{"version 1 in a container, whose path is the host's", "2:cpuacct,cpu:/docker/1f\n0::/\n",
			map[string]string{"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, "2", -1},
		{"another controller", "2:cpuset:/\n", map[string]string{"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, "none", -1},
	} {
		root := t.TempDir()
		for name, text := range test.files {
			path := filepath.Join(root, name)
			must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
		}
		got, groups := "none", ownGroups(root, test.listed)
		if q := quota(root, groups); q != nil {
			got = fmt.Sprint(*q)
		}
		n := int64(-1)
		if v := throttled(groups); v != nil {
			n = *v
		}
		if got != test.want || n != test.throttled {
			t.Errorf("%s: %s cores, throttled %d, want %s and %d", test.name, got, n, test.want, test.throttled)
		}
	}
}
