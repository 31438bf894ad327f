package report

import "testing"

func TestCellsAreNoFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"=HYPERLINK(\"http://h\")": "'=HYPERLINK(\"http://h\")", "+1+1": "'+1+1", "-2+3": "'-2+3", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1",
		"-5": "-5", "+3.5": "+3.5", "envoy": "envoy", "a=b": "a=b", "": "",
	} {
		if got := noFormula(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
