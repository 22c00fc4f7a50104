// A client of HTTP/3 over quic-go, which goes to another port in the middle of a response.
// Arguments: AUTHORITY_FILE ADDRESS PATH BYTES FILE. It probes the new path after so many bytes of the response, goes there, and
// writes the content to the file.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func transport() *quic.Transport {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	return &quic.Transport{Conn: socket}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	pem, err := os.ReadFile(os.Args[1])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	address, err := net.ResolveUDPAddr("udp4", os.Args[2])
	check(err)
	bytes, err := strconv.ParseInt(os.Args[4], 10, 64)
	check(err)
	file, err := os.Create(os.Args[5])
	check(err)

	config := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{http3.NextProtoH3}}
	connection, err := transport().Dial(ctx, address, config, &quic.Config{})
	check(err)
	client := (&http3.Transport{}).NewClientConn(connection)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost"+os.Args[3], nil)
	check(err)
	response, err := client.RoundTrip(request)
	check(err)
	_, err = io.CopyN(file, response.Body, bytes)
	check(err)

	path, err := connection.AddPath(transport())
	check(err)
	check(path.Probe(ctx))
	check(path.Switch())
	_, err = io.Copy(file, response.Body)
	check(err)
	check(file.Close())
	check(connection.CloseWithError(0x100, ""))
	fmt.Println(response.StatusCode)
}
