#!/usr/bin/python3
"""Revokes a certificate with its own private key (RFC 8555 section 7.6): revoke.py DIRECTORY-URL CA-FILE PEM-FILE

The file has the chain and the key, which is of the curve P-256.
"""
import base64, json, ssl, subprocess, sys, urllib.error, urllib.request

directory, ca, pem = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)


def openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, stdout=subprocess.PIPE, check=True).stdout


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signature(data):
    """The numbers of a signature, 32 bytes each."""
    der = openssl("dgst", "-sha256", "-sign", pem, given=data)
    numbers, at = b"", 2
    for _ in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + length
    return numbers


def ask(url, body=None):
    request = urllib.request.Request(url, body, {"Content-Type": "application/jose+json"})
    return urllib.request.urlopen(request, context=context)


urls = json.load(ask(directory))
point = openssl("pkey", "-in", pem, "-pubout", "-outform", "DER")[-64:]
key = {"kty": "EC", "crv": "P-256", "x": encoded(point[:32]), "y": encoded(point[32:])}
certificate = openssl("x509", "-in", pem, "-outform", "DER")
while True:
    nonce = ask(urls["newNonce"]).headers["Replay-Nonce"]
    head = {"alg": "ES256", "jwk": key, "nonce": nonce, "url": urls["revokeCert"]}
    protected = encoded(json.dumps(head).encode())
    payload = encoded(json.dumps({"certificate": encoded(certificate)}).encode())
    signed = encoded(signature(f"{protected}.{payload}".encode()))
    body = json.dumps({"protected": protected, "payload": payload, "signature": signed})
    try:
        ask(urls["revokeCert"], body.encode())
        break
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        if "badNonce" not in text:
            sys.exit(text)
