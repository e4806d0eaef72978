package server

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/valyala/fasthttp"
)

// The two parts of a long answer arrive as one text, whatever length the second has, and an answer that turns out to
// have one part arrives once the connection is idle again. Nothing of an answer is left for the next.
func TestPartsOfAnAnswerArriveWhole(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	cs := &connections{max: 1, addresses: map[netip.Prefix]*address{}}
	c := cs.admit(accepted)
	for _, parts := range [][]int{{writerBuffer, 1}, {writerBuffer, writerBuffer}, {writerBuffer, 300 << 10}, {10}, {10, 20}} {
		var want []byte
		c.split = true
		idle := make(chan struct{})
		go func() {
			defer close(idle)
			for i, size := range parts {
				if n, err := c.Write(bytes.Repeat([]byte{byte('a' + i)}, size)); n != size || err != nil {
					t.Errorf("%v: %d bytes of part %d were written: %v", parts, n, i, err)
				}
			}
			cs.changed(c, fasthttp.StateIdle)
		}()
		for i, size := range parts {
			want = append(want, bytes.Repeat([]byte{byte('a' + i)}, size)...)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes arrived, %.10q…: %v", parts, len(got), got, err)
		}
		<-idle
	}
}
