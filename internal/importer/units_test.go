package importer

import "testing"

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		text  string
		units map[string]float64
		want  float64
	}{
		{"250000000n", CPUUnits, 0.25}, {"250u", CPUUnits, 0.00025}, {"250m", CPUUnits, 0.25}, {"2", CPUUnits, 2}, {"0", CPUUnits, 0}, {"1.5", CPUUnits, 1.5},
		{"4Ki", MemoryUnits, 4096}, {"4K", MemoryUnits, 4000}, {"4k", MemoryUnits, 4000}, {"55Mi", MemoryUnits, 55 << 20}, {"55M", MemoryUnits, 55e6},
		{"2Gi", MemoryUnits, 2 << 30}, {"2G", MemoryUnits, 2e9}, {"1Ti", MemoryUnits, 1 << 40}, {"128974848", MemoryUnits, 128974848}, {"1500m", MemoryUnits, 1.5},
	} {
		if got, err := Amount(c.text, c.units); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; expected %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "m", "Mi", "nan", "NaNm", "inf", "1e999", "-1", "-0", "0x10", "1_000", "5 5", "5q", "１"} {
		for _, units := range []map[string]float64{CPUUnits, MemoryUnits} {
			if v, err := Amount(bad, units); err == nil {
				t.Errorf("%q was read as %v", bad, v)
			}
		}
	}
}
