package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/enginesim"
)

func TestParseEngine(t *testing.T) {
	got, err := parseEngine("name=a,listen=127.0.0.1:0,prefill=8000,decode=60.5,batch=16,queue=-1,cache=4096,block=32,output=7,models=m+n/o")
	if err != nil {
		t.Fatal(err)
	}
	want := enginesim.Options{
		Name: "a", Listen: "127.0.0.1:0", Prefill: 8000, Decode: 60.5, Batch: 16, Queue: -1,
		CacheTokens: 4096, BlockTokens: 32, Output: 7, Models: []string{"m", "n/o"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "a", "name=", "name=a,name=b", "name=a,speed=3", "name=a,batch=many", "name=a/b", "prefill=1"} {
		if o, err := parseEngine(bad); err == nil {
			t.Errorf("%q was accepted: %+v", bad, o)
		}
	}
}

func TestRunServesUntilTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--engine", "name=a", "--engine", "name=b,models=m"}, in, io.Discard)
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var got ready
	if err := json.Unmarshal(line, &got); err != nil || len(got.Engines) != 2 || got.Engines[1].Name != "b" {
		t.Fatalf("%s: %v", line, err)
	}
	get := func(url string) (int, string) {
		res, err := http.Get(url)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	for _, e := range got.Engines {
		if status, _ := get("http://" + e.Addr + "/health"); status != 200 {
			t.Errorf("%s: %d", e.Name, status)
		}
	}
	res, err := http.Post("http://"+got.Control+"/engines/a/kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if status, _ := get("http://" + got.Engines[0].Addr + "/health"); status != 0 {
		t.Errorf("a after its death: %d", status)
	}
	if status, body := get("http://" + got.Control + "/engines"); status != 200 || !strings.Contains(body, `"alive":false`) {
		t.Errorf("%d %s", status, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"x"}, {"--engine", "name=a", "x"}, {"--engine", "name=a", "--engine", "name=a"}, {"--what"}} {
		var stderr bytes.Buffer
		if err := run(t.Context(), args, io.Discard, &stderr); !errors.Is(err, errUsage) || stderr.Len() == 0 {
			t.Errorf("%q: %v, %s", args, err, stderr.String())
		}
	}
	if err := run(t.Context(), []string{"-h"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
	for _, args := range [][]string{{"--engine", "name=a,listen=nowhere"}, {"--engine", "name=a", "--control", "nowhere"}, {"--engine", "name=a,prefill=-1"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
